//! Walkthroughs of `ARCHITECTURE.md`: each file that a walk names exists, and is connected with a file before it.
//!
//! Two files are connected when one uses a name that the other declares for others. A text rule cannot see the order of
//! calls; it sees that a step was renamed, moved, or no longer has to do with the steps before.

use super::source::has_word;
use super::{Finding, Source};

const DOCUMENT: &str = "ARCHITECTURE.md";
const HEADING: &str = "## Walkthroughs";
const KINDS: [&str; 5] = ["struct ", "enum ", "trait ", "const ", "type "];
/// Names shorter than this connect everything with everything.
const NAME_LEN_MIN: usize = 4;

/// A file or folder that a walk names.
struct Step<'a> {
    line: usize,
    path: &'a str,
    files: Vec<&'a Source>,
}

pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let Some(document) = sources.iter().find(|source| source.path == DOCUMENT) else {
        return vec![Finding::new(DOCUMENT, 0, "the document is missing")];
    };
    let walks = walks(document, sources);
    if walks.is_empty() {
        return vec![document.finding(0, format!("no walk stands below \"{HEADING}\""))];
    }
    walks.iter().flat_map(|walk| check_walk(document, walk)).collect()
}

fn check_walk(document: &Source, walk: &[Step<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, step) in walk.iter().enumerate() {
        if step.files.is_empty() {
            findings.push(document.finding(step.line, format!("`{}` does not exist", step.path)));
        } else if number > 0 && !walk[..number].iter().any(|before| are_connected(before, step)) {
            let what = format!("`{}` has nothing to do with the steps before it", step.path);
            findings.push(document.finding(step.line, what));
        }
    }
    findings
}

/// Returns the steps of each walk. A walk begins with a line in bold; its steps are the code spans that are paths.
fn walks<'a>(document: &'a Source, sources: &'a [Source]) -> Vec<Vec<Step<'a>>> {
    let section = document
        .lines()
        .skip_while(|(_, line)| *line != HEADING)
        .skip(1)
        .take_while(|(_, line)| !line.starts_with("## "));
    let mut walks: Vec<Vec<Step<'a>>> = Vec::new();
    for (line, text) in section {
        if text.starts_with("**") {
            walks.push(Vec::new());
            continue;
        }
        let Some(walk) = walks.last_mut() else { continue };
        let spans = text.split('`').skip(1).step_by(2);
        for path in spans.filter(|span| span.contains('/') && !span.contains(' ')) {
            let is_file = |source: &&Source| match path.strip_suffix('/') {
                Some(folder) => {
                    source.path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
                }
                None => source.path == path,
            };
            let files = sources.iter().filter(is_file).collect();
            walk.push(Step { line, path, files });
        }
    }
    walks
}

fn are_connected(one: &Step<'_>, other: &Step<'_>) -> bool {
    let uses = |by: &Source, of: &Source| {
        let names: Vec<&str> = declared(of).collect();
        by.code_lines().any(|(_, line)| names.iter().any(|name| has_word(line, name)))
    };
    one.files.iter().any(|a| other.files.iter().any(|b| uses(a, b) || uses(b, a)))
}

/// Returns the names that a file declares for other files.
fn declared(source: &Source) -> impl Iterator<Item = &str> {
    source.code_lines().filter_map(|(_, line)| {
        let mut rest = line.trim_start();
        if let Some(visible) = rest.strip_prefix("pub") {
            rest = visible.split_once(' ').map_or("", |(_, rest)| rest);
        }
        for word in ["const fn ", "async fn ", "fn "] {
            rest = rest.strip_prefix(word).unwrap_or(rest);
        }
        let name = KINDS.iter().find_map(|kind| rest.strip_prefix(kind)).unwrap_or(rest);
        if name.len() == line.trim_start().len() {
            return None;
        }
        let end = name.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
        let name = &name[..end.unwrap_or(name.len())];
        (name.len() >= NAME_LEN_MIN).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_with(walk: &str) -> usize {
        let document = Source::new(DOCUMENT, format!("{HEADING}\n\n**A message**\n\n{walk}"));
        let files = [
            document,
            Source::new("core/src/publish.rs", "pub fn publish() { dispatch() }\n"),
            Source::new("core/src/dispatch.rs", "pub(crate) fn dispatch() {}\n"),
            Source::new("core/src/calendar.rs", "pub(crate) fn holidays() {}\n"),
        ];
        check(&files).len()
    }

    #[test]
    fn a_walk_along_uses_is_accepted() {
        assert_eq!(check_with("1. `core/src/publish.rs`\n2. `core/src/dispatch.rs`\n"), 0);
        assert_eq!(check_with("1. `core/src/` has it\n"), 0);
    }

    #[test]
    fn a_file_that_does_not_exist_is_found() {
        assert_eq!(check_with("1. `core/src/publish.rs`, `core/src/leave.rs`\n"), 1);
        assert_eq!(check_with("1. `core/sending/`\n"), 1);
    }

    #[test]
    fn a_step_without_a_connection_is_found() {
        assert_eq!(check_with("1. `core/src/publish.rs`\n2. `core/src/calendar.rs`\n"), 1);
    }

    #[test]
    fn a_document_without_walks_is_found() {
        assert_eq!(check(&[Source::new(DOCUMENT, "# Architecture\n")]).len(), 1);
    }
}
