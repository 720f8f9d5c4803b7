//! Tags: comments by which tests name requirements and traps.
//!
//! A tag begins its comment and is directly above its test: only comments and attributes may be
//! between. A Rust test has a test attribute, or is a case of a suite: a function in a `tests` folder or
//! in `testing/conformance/src` whose name occurs a second time in the same folder, where the suite lists it.

use super::list::is_id;
use crate::tidy::{Finding, Source, has_word, is_test_attribute};

/// Folders whose functions are cases of suites.
const SUITES: [&str; 2] = ["/tests/", "testing/conformance/src/"];
/// Beginnings of a test in other languages.
const OTHER_TESTS: [&str; 6] = ["test(", "test.", "it(", "flow(", "def test_", "async def test_"];

pub(super) struct Tag {
    pub(super) path: String,
    line: usize,
    pub(super) ids: Vec<String>,
    /// Reason why the tag is invalid.
    problem: Option<String>,
}

impl Tag {
    pub(super) fn at(&self, what: String) -> Finding {
        Finding::new(&self.path, self.line, what)
    }

    pub(super) fn names_a_test(&self) -> bool {
        self.problem.is_none()
    }

    pub(super) fn finding(&self) -> Option<Finding> {
        self.problem.clone().map(|problem| self.at(problem))
    }
}

/// Returns every tag of the sources.
pub(super) fn find(sources: &[Source]) -> Vec<Tag> {
    sources.iter().flat_map(|source| tags_of(source, sources)).collect()
}

fn tags_of(source: &Source, sources: &[Source]) -> Vec<Tag> {
    let lines: Vec<&str> = source.text.lines().collect();
    let mut tags = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some(words) = comment(line).and_then(named) else {
            continue;
        };
        let wrong = words.iter().find(|word| !is_id(word));
        let problem = match wrong {
            Some(word) => Some(format!("`{word}` is no requirement and no trap")),
            None => test_below(source, &lines[index + 1..], sources).err(),
        };
        let ids = words.into_iter().filter(|word| is_id(word)).collect();
        tags.push(Tag { path: source.path.clone(), line: index + 1, ids, problem });
    }
    tags
}

/// Returns the text of a line that is a comment.
fn comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("//").or_else(|| line.strip_prefix("# ")).map(str::trim_start)
}

/// Returns the ids that a comment names, when it is a tag.
fn named(comment: &str) -> Option<Vec<String>> {
    if let Some(ids) = comment.strip_prefix("spec:") {
        return Some(ids.split(',').map(|id| id.trim().to_owned()).collect());
    }
    let (word, rest) = comment.split_once(' ')?;
    if !["trap", "traps"].contains(&word.to_lowercase().as_str()) {
        return None;
    }
    let numbers = rest.split(':').next()?.trim_end_matches('.');
    Some(numbers.split(',').map(|number| format!("trap {}", number.trim())).collect())
}

/// Explains why no test follows a tag directly.
fn test_below(source: &Source, lines: &[&str], sources: &[Source]) -> Result<(), String> {
    let mut has_attribute = false;
    for line in lines.iter().map(|line| line.trim()) {
        if line.starts_with("#[") {
            has_attribute |= is_test_attribute(line);
        } else if comment(line).is_none() {
            return is_test(source, line, has_attribute, sources);
        }
    }
    Err("a tag stands directly above its test; nothing follows this one".to_owned())
}

fn is_test(
    source: &Source,
    line: &str,
    has_attribute: bool,
    sources: &[Source],
) -> Result<(), String> {
    if !source.is_rust() && OTHER_TESTS.iter().any(|start| line.starts_with(start)) {
        return Ok(());
    }
    let Some(name) = function(line).filter(|_| source.is_rust()) else {
        return Err("a tag stands directly above its test, without an empty line".to_owned());
    };
    if has_attribute || is_case(source, name, sources) {
        return Ok(());
    }
    Err(format!("`{name}` below this tag is no test, and no suite lists it"))
}

/// Returns the name of the function that a line begins.
fn function(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("fn ")?;
    let qualifiers = ["pub", "pub(crate)", "pub(super)", "async", "const", "unsafe"];
    let name = rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()?;
    before.split_whitespace().all(|word| qualifiers.contains(&word)).then_some(name)
}

/// Returns whether a function without a test attribute is a case of a suite: the entry of a program of
/// tests, or named a second time in its folder of tests.
fn is_case(source: &Source, name: &str, sources: &[Source]) -> bool {
    let Some(folder) = suite_folder(&source.path) else {
        return false;
    };
    let lines = sources
        .iter()
        .filter(|other| other.is_rust() && other.path.starts_with(folder))
        .flat_map(Source::code_lines);
    name == "main" || lines.filter(|(_, line)| has_word(line, name)).count() > 1
}

fn suite_folder(path: &str) -> Option<&str> {
    SUITES.iter().find_map(|suite| path.find(suite).map(|at| &path[..at + suite.len()]))
}
