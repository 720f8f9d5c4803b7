//! Requirement coverage: every numbered requirement of `docs/requirements.md` is named by a test, or its
//! entry has a reason why none can.
//!
//! A test names its requirements in a comment directly above it, `// spec: H-42, M-17` or `// Trap 9: ...`.
//! The check compares names only: reviewers check that a test proves the requirements it names.

mod list;
mod tags;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::Result;

use self::list::{Exemption, LIST, List};
use self::tags::Tag;
use crate::tally::Tally;
use crate::tidy::{Finding, Source, report};
use crate::workspace::Workspace;

/// The endings of files with tests.
const TESTS: [&str; 4] = ["rs", "js", "mjs", "py"];

/// Requirements, traps, and the tests that name them.
struct Coverage {
    list: List,
    tags: Vec<Tag>,
    findings: Vec<Finding>,
}

/// Checks the coverage and prints its counts.
pub(crate) fn check(workspace: &Workspace) -> Result<Tally> {
    let coverage = Coverage::read(workspace)?;
    println!("{}", coverage.summary());
    report(&coverage.findings())
}

/// Prints each requirement with the files that name it, then checks the coverage.
pub(crate) fn print(workspace: &Workspace) -> Result<Tally> {
    let coverage = Coverage::read(workspace)?;
    print!("{}", coverage.listing());
    println!("{}", coverage.summary());
    report(&coverage.findings())
}

impl Coverage {
    fn read(workspace: &Workspace) -> Result<Self> {
        let document = std::fs::read_to_string(workspace.path(LIST))?;
        Ok(Self::new(&Source::new(LIST, document), &workspace.files(&TESTS)?))
    }

    fn new(document: &Source, sources: &[Source]) -> Self {
        let (list, mut findings) = list::parse(document);
        let tags = tags::find(sources);
        findings.extend(tags.iter().filter_map(Tag::finding));
        Self { list, tags, findings }
    }

    /// Returns the files that name each id.
    fn named(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut named: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for tag in self.tags.iter().filter(|tag| tag.names_a_test()) {
            for id in &tag.ids {
                named.entry(id).or_default().insert(&tag.path);
            }
        }
        named
    }

    /// Returns all findings about the list, the tags, and their combination.
    fn findings(&self) -> Vec<Finding> {
        let named = self.named();
        let mut findings = self.findings.clone();
        for tag in &self.tags {
            for id in tag.ids.iter().filter(|id| !self.list.has(id)) {
                findings.push(tag.at(format!("`{id}` is not in {LIST}")));
            }
        }
        for entry in &self.list.entries {
            let what = match (named.contains_key(entry.id.as_str()), &entry.exemption) {
                (false, None) => "is named by no test and has no reason",
                (true, Some(Exemption::NoTest)) => {
                    "has the remark that no test names it, but one does"
                }
                _ => continue,
            };
            findings.push(Finding::new(LIST, entry.line, format!("`{}` {what}", entry.id)));
        }
        findings
    }

    fn summary(&self) -> String {
        let named = self.named();
        let (traps, requirements): (Vec<_>, Vec<_>) =
            self.list.entries.iter().partition(|entry| entry.is_trap());
        let count = |exemption: Exemption| {
            requirements.iter().filter(|entry| entry.exemption == Some(exemption)).count()
        };
        format!(
            "{} requirements: {} named by tests, {} with a reason for no test, {} open; {} traps",
            requirements.len(),
            requirements.iter().filter(|entry| named.contains_key(entry.id.as_str())).count(),
            count(Exemption::NoTest),
            count(Exemption::Open),
            traps.len(),
        )
    }

    /// Returns one line for each requirement and an indented one for each file that names it.
    fn listing(&self) -> String {
        let named = self.named();
        let mut text = String::new();
        for entry in &self.list.entries {
            let _ = writeln!(text, "{}: {}", entry.id, entry.text);
            for path in named.get(entry.id.as_str()).into_iter().flatten() {
                let _ = writeln!(text, "    {path}");
            }
        }
        text
    }
}
