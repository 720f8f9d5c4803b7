//! File length: long files are noted, not refused, because one concept of 600 lines is better than two halves.

use super::{Finding, Source};

const LINES_MAX: usize = 500;

pub(super) fn note(source: &Source) -> Option<Finding> {
    let lines = source.text.lines().count();
    (source.is_rust() && lines > LINES_MAX)
        .then(|| source.finding(0, format!("{lines} lines; is it still one concept?")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_file_is_noted() {
        let long = "//\n".repeat(LINES_MAX + 1);
        assert!(note(&Source::new("a.rs", long)).is_some());
        assert!(note(&Source::new("a.rs", "//\n".repeat(LINES_MAX))).is_none());
    }
}
