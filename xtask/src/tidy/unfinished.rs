//! Unfinished work: a `TODO` carries the number of its issue.

use super::source::has_word;
use super::{Finding, Source};

const MARKS: [&str; 3] = ["TODO", "FIXME", "XXX"];

pub(super) fn check(source: &Source) -> Vec<Finding> {
    if source.is_a_rule() {
        return Vec::new();
    }
    let is_open =
        |line: &str| MARKS.iter().any(|mark| has_word(line, mark) && !has_issue_number(line, mark));
    source
        .lines()
        .filter(|(_, line)| is_open(line) && !line.contains('`'))
        .map(|(number, _)| source.finding(number, "unfinished work without an issue number"))
        .collect()
}

/// `TODO(#12)` or `TODO #12`, right after the mark.
fn has_issue_number(line: &str, mark: &str) -> bool {
    let after = line.split(mark).nth(1).unwrap_or_default();
    let after = after.trim_start_matches(['(', ' ', ':']);
    let number = after.strip_prefix('#').unwrap_or_default();
    number.starts_with(|letter: char| letter.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        check(&Source::new("core/src/lib.rs", text)).len()
    }

    #[test]
    fn a_mark_without_a_number_is_found() {
        assert_eq!(count("// TODO: later\n"), 1);
        assert_eq!(count("// FIXME\n"), 1);
        assert_eq!(count("// TODO see issue 12\n"), 1);
    }

    #[test]
    fn a_mark_with_a_number_and_a_longer_word_are_not() {
        assert_eq!(count("// TODO(#12): later\n// FIXME #7\n"), 0);
        assert_eq!(count("const METHODOLOGY_TODOS: u8 = 1;\n"), 0);
    }

    #[test]
    fn prose_may_name_the_mark_in_code_style() {
        assert_eq!(count("No `TODO` without an issue number.\n"), 0);
    }
}
