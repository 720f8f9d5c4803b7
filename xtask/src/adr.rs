//! Architecture decision records: creates a record with the next number and renders the index.
//!
//! Numbers come from this tool, so that two records never share one; `tidy` checks that none is
//! missing or used twice, also after a merge.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::tidy::Source;
use crate::workspace::Workspace;

pub(crate) const FOLDER: &str = "docs/adr/";
pub(crate) const INDEX: &str = "docs/adr/README.md";

#[derive(clap::Subcommand)]
pub(crate) enum Action {
    /// Write a new record from the template and print its path.
    New {
        /// The decision as a short sentence, such as "Leases carry tokens".
        title: String,
    },
}

/// One decision record, read from its file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) number: u32,
    pub(crate) file: &'a str,
    /// The heading without its number, empty when the heading is missing.
    pub(crate) title: &'a str,
    /// The number in the heading.
    pub(crate) heading_number: Option<u32>,
}

pub(crate) fn run(workspace: &Workspace, action: &Action) -> Result<()> {
    let Action::New { title } = action;
    let mut sources = workspace.sources()?;
    let number = records(&sources).last().map_or(1, |last| last.number + 1);
    let record = draft(number, title)?;
    let path = workspace.path(&record.path);
    fs::write(&path, &record.text).with_context(|| format!("write {}", path.display()))?;
    println!("{}", record.path);
    sources.push(record);
    fs::write(workspace.path(INDEX), index(&sources)).context("write the index")
}

/// Returns the records among these files, in order of their numbers.
pub(crate) fn records(sources: &[Source]) -> Vec<Record<'_>> {
    let mut records: Vec<Record<'_>> = sources.iter().filter_map(record).collect();
    records.sort_by_key(|record| (record.number, record.file));
    records
}

/// Returns the text of the index.
pub(crate) fn index(sources: &[Source]) -> String {
    let mut text = String::from(
        "# Decisions\n\n\
         One page each: context, decision, consequences and refused alternatives. The decision of a record never\n\
         changes; a newer record replaces it, and the status names that record. Dated notes state what was built\n\
         differently. `cargo xtask adr new \"title\"` creates the next record and adds it to this list.\n\n",
    );
    let lines = records(sources).into_iter().map(|record| {
        let Record { number, file, title, .. } = record;
        format!("- [{number:04}]({file}) {title}\n")
    });
    text.extend(lines);
    text
}

fn record(source: &Source) -> Option<Record<'_>> {
    let file = source.path.strip_prefix(FOLDER)?;
    let number = file.split('-').next()?.parse().ok()?;
    let heading = source.text.lines().next()?.strip_prefix("# ");
    let (heading_number, title) = heading
        .and_then(|heading| heading.split_once(". "))
        .map_or((None, ""), |(number, title)| (number.parse().ok(), title));
    Some(Record { number, file, title, heading_number })
}

fn draft(number: u32, title: &str) -> Result<Source> {
    let title = title.trim().trim_end_matches('.');
    let slug = slug(title);
    if slug.is_empty() {
        bail!("the title `{title}` has no letter or digit to name a file by");
    }
    let text = format!(
        "# {number:04}. {title}\n\n\
         Status: accepted\n\n\
         ## Context\n\nThe problem that needs a decision, with evidence.\n\n\
         ## Decision\n\nThe decision, in one paragraph.\n\n\
         ## Consequences\n\n- Advantages, costs, and where they are checked.\n\n\
         ## Alternatives refused\n\n- Each with its reason.\n"
    );
    Ok(Source::new(format!("{FOLDER}{number:04}-{slug}.md"), text))
}

fn slug(title: &str) -> String {
    let letters = title.chars().map(|letter| match letter {
        letter if letter.is_ascii_alphanumeric() => letter.to_ascii_lowercase(),
        _ => ' ',
    });
    let letters: String = letters.collect();
    letters.split_whitespace().collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_becomes_a_file_name() {
        assert_eq!(slug("`now` is an argument; always"), "now-is-an-argument-always");
        assert_eq!(slug("  "), "");
        assert!(draft(3, "!?").is_err());
    }

    #[test]
    fn a_draft_is_a_record_of_its_own_number() {
        let source = draft(15, "Queues have weights.").unwrap();
        assert_eq!(source.path, "docs/adr/0015-queues-have-weights.md");
        let expected = Record {
            number: 15,
            file: "0015-queues-have-weights.md",
            title: "Queues have weights",
            heading_number: Some(15),
        };
        assert_eq!(records(&[source]), [expected]);
    }

    #[test]
    fn the_index_lists_records_by_number_and_not_itself() {
        let sources = [
            draft(2, "Second").unwrap(),
            draft(1, "First").unwrap(),
            Source::new(INDEX, "# Decisions\n"),
        ];
        let index = index(&sources);
        assert!(
            index.ends_with("\n- [0001](0001-first.md) First\n- [0002](0002-second.md) Second\n")
        );
    }
}
