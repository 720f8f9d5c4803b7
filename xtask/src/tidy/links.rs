//! Links: the target of a link from a document to a file of the workspace exists.

use super::{Finding, Source};

pub(super) fn check(source: &Source, exists: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    if !source.is_markdown() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let mut fenced = false;
    for (number, line) in source.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        for target in targets(line) {
            if let Some(path) = local_path(&source.path, target)
                && !exists(&path)
            {
                findings.push(source.finding(number, format!("the link to `{target}` is dead")));
            }
        }
    }
    findings
}

/// Returns the texts between `](` and `)`, outside code spans.
fn targets(line: &str) -> Vec<&str> {
    let prose = line.split('`').step_by(2);
    prose
        .flat_map(|piece| piece.split("](").skip(1))
        .filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
        .collect()
}

/// Returns the path of a target from the root; `None` when it is outside the workspace.
fn local_path(document: &str, target: &str) -> Option<String> {
    let file = target.split('#').next().unwrap_or_default();
    if file.is_empty() || file.contains(':') {
        return None;
    }
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in file.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dead(text: &str) -> usize {
        let exists = |path: &str| path == "docs/adr/README.md" || path == "README.md";
        check(&Source::new("docs/glossary.md", text), &exists).len()
    }

    #[test]
    fn a_link_to_nothing_is_found() {
        assert_eq!(dead("[a](missing.md)\n"), 1);
        assert_eq!(dead("[a](adr/README.md) and [b](adr/0099-x.md)\n"), 1);
    }

    #[test]
    fn links_that_lead_somewhere_are_not() {
        assert_eq!(dead("[a](adr/README.md#top), [b](../README.md), [c](#here)\n"), 0);
        assert_eq!(dead("[a](https://example.org/x)\n"), 0);
    }

    #[test]
    fn code_is_not_read_for_links() {
        assert_eq!(dead("```\n[a](missing.md)\n```\n`[a](missing.md)`\n"), 0);
    }
}
