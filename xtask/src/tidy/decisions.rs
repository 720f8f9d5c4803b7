//! Decision records: consecutive numbers, matching headings and file names, and an up-to-date index.

use crate::adr::{self, Record};

use super::{Finding, Source};

pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let records = adr::records(sources);
    let mut findings: Vec<Finding> =
        (1..).zip(&records).filter_map(|(expected, record)| broken(expected, record)).collect();
    let index = sources.iter().find(|source| source.path == adr::INDEX);
    let fresh = index.is_some_and(|index| index.text == adr::index(sources));
    if !records.is_empty() && !fresh {
        let what = "stale; `cargo xtask generate` rewrites it";
        findings.push(Source::new(adr::INDEX, "").finding(0, what));
    }
    findings
}

fn broken(expected: u32, record: &Record<'_>) -> Option<Finding> {
    let what = if record.number != expected {
        format!("number {:04} where {expected:04} comes next", record.number)
    } else if record.heading_number != Some(record.number) {
        format!("the heading must begin `# {expected:04}. `")
    } else {
        return None;
    };
    let path = format!("{}{}", adr::FOLDER, record.file);
    Some(Source::new(path, "").finding(0, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u32, name: &str) -> Source {
        let path = format!("docs/adr/{number:04}-{name}.md");
        Source::new(path, format!("# {number:04}. {name}\n"))
    }

    fn with_index(mut sources: Vec<Source>) -> Vec<Source> {
        let index = adr::index(&sources);
        sources.push(Source::new(adr::INDEX, index));
        sources
    }

    #[test]
    fn a_clean_folder_is_clean() {
        let sources = with_index(vec![record(1, "a"), record(2, "b")]);
        assert_eq!(check(&sources), []);
    }

    #[test]
    fn doubled_and_missing_numbers_are_found() {
        let doubled = with_index(vec![record(1, "a"), record(1, "b")]);
        assert_eq!(check(&doubled).len(), 1);
        let gap = with_index(vec![record(1, "a"), record(3, "b")]);
        assert_eq!(check(&gap).len(), 1);
    }

    #[test]
    fn a_heading_that_disagrees_is_found() {
        let other = Source::new("docs/adr/0001-a.md", "# 0002. a\n");
        assert_eq!(check(&with_index(vec![other])).len(), 1);
    }

    #[test]
    fn a_stale_or_missing_index_is_found() {
        assert_eq!(check(&[record(1, "a")]).len(), 1);
        let mut sources = with_index(vec![record(1, "a")]);
        sources.push(record(2, "b"));
        assert_eq!(check(&sources).len(), 1);
    }
}
