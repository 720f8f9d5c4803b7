//! Script lines: a line of JavaScript, CSS or HTML has at most 120 columns. No formatter runs over these files, so the
//! limit is checked here; third-party files in `vendor` are exempt.

use super::{Finding, Source};

const COLUMNS_MAX: usize = 120;

pub(super) fn check(source: &Source) -> Vec<Finding> {
    if !source.is_web_source() {
        return Vec::new();
    }
    let lines = source.lines().map(|(number, line)| (number, line.chars().count()));
    lines
        .filter(|(_, columns)| *columns > COLUMNS_MAX)
        .map(|(number, columns)| {
            let what = format!("{columns} columns; break the line after at most {COLUMNS_MAX}");
            source.finding(number, what)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, columns: usize) -> usize {
        check(&Source::new(path, format!("{}\n", "é".repeat(columns)))).len()
    }

    #[test]
    fn a_long_line_of_a_script_a_style_sheet_or_a_page_is_found() {
        for path in ["dashboard/app.js", "testing/browser/site.mjs", "a/b.css", "a/index.html"] {
            assert_eq!(found(path, COLUMNS_MAX + 1), 1, "{path}");
            assert_eq!(found(path, COLUMNS_MAX), 0, "{path}");
        }
    }

    #[test]
    fn third_party_files_and_other_languages_are_not_checked() {
        for path in ["dashboard/vendor/uplot.js", "dashboard/vendor/uplot.css", "docs/a.md"] {
            assert_eq!(found(path, COLUMNS_MAX + 1), 0, "{path}");
        }
    }
}
