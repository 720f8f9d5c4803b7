//! Sources that rules read, and the findings they return.

use std::fmt;
use std::path::Path;

use anyhow::{Result, bail};

use crate::tally::Tally;

/// A text file by its path from the workspace root, with forward slashes.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// A broken rule. Line 0 means the file as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    what: String,
}

impl Source {
    pub(crate) fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self { path: path.into(), text: text.into() }
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.has_ending("rs")
    }

    pub(crate) fn is_script(&self) -> bool {
        (self.has_ending("js") || self.has_ending("mjs")) && !self.is_vendored()
    }

    /// Returns whether it is JavaScript, CSS or HTML of the project.
    pub(crate) fn is_web_source(&self) -> bool {
        self.is_script()
            || (self.has_ending("css") || self.has_ending("html")) && !self.is_vendored()
    }

    pub(crate) fn is_style_sheet(&self) -> bool {
        self.has_ending("css") && !self.is_vendored()
    }

    pub(crate) fn is_sql(&self) -> bool {
        self.has_ending("sql")
    }

    pub(crate) fn is_markdown(&self) -> bool {
        self.has_ending("md")
    }

    fn is_vendored(&self) -> bool {
        self.path.contains("/vendor/")
    }

    fn has_ending(&self, ending: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|own| own == ending)
    }

    /// The rules contain the words they refuse.
    pub(crate) fn is_a_rule(&self) -> bool {
        self.path.starts_with("xtask/src/tidy/")
    }

    /// Lines with their numbers, counted from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(i, line)| (i + 1, line))
    }

    /// Returns the lines of Rust without comments. A `//` inside a string truncates the line, which
    /// can hide a word from a rule but never adds one.
    pub(crate) fn code_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines().map(|(number, line)| (number, line.split("//").next().unwrap_or_default()))
    }

    pub(crate) fn finding(&self, line: usize, what: impl Into<String>) -> Finding {
        Finding::new(&self.path, line, what)
    }
}

impl Finding {
    pub(crate) fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

/// Prints the findings; one or more of them are an error.
pub(crate) fn report(findings: &[Finding]) -> Result<Tally> {
    for finding in findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => Ok(Tally::ONE_PASSED),
        count => bail!("rules broken: {count}, listed above"),
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.what),
            line => write!(f, "{}:{line}: {}", self.path, self.what),
        }
    }
}

/// Returns whether `line` contains `word` with no letter, digit or underscore on either side.
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    let joins = |letter: char| letter.is_alphanumeric() || letter == '_';
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        !before.is_some_and(joins) && !after.is_some_and(joins)
    })
}

/// Returns whether a line that begins with `#[` makes a test of the function below it.
pub(crate) fn is_test_attribute(attribute: &str) -> bool {
    let path = attribute.trim_start_matches("#[").split(['(', ']']).next().unwrap_or_default();
    path.rsplit("::").next() == Some("test")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_end_where_letters_end() {
        assert!(has_word("use tokio::sync", "tokio"));
        assert!(!has_word("use my_tokio", "tokio"));
        assert!(!has_word("tokios", "tokio"));
    }

    #[test]
    fn comments_are_not_code() {
        let source = Source::new("a.rs", "/// tokio\nlet x = 1; // tokio\n");
        let code: Vec<_> = source.code_lines().collect();
        assert_eq!(code, [(1, ""), (2, "let x = 1; ")]);
    }

    #[test]
    fn a_finding_points_at_its_line() {
        let source = Source::new("a.rs", "");
        assert_eq!(source.finding(3, "bad").to_string(), "a.rs:3: bad");
        assert_eq!(source.finding(0, "bad").to_string(), "a.rs: bad");
    }
}
