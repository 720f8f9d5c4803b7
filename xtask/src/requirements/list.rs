//! List of requirements and traps in `docs/requirements.md`.
//!
//! An entry is a list item `- H-4: sentence`, continued on indented lines. It may end with an exemption:
//! `(no test: reason)` where no test can name it, `(open: what is missing)` where Punctual does less.

use crate::tidy::{Finding, Source};

/// Path of the list.
pub(super) const LIST: &str = "docs/requirements.md";
/// The letters of the families.
const FAMILIES: &str = "HMDUTC";

pub(super) struct List {
    pub(super) entries: Vec<Entry>,
}

pub(super) struct Entry {
    /// `H-4`, `U-39a` or `trap 9`.
    pub(super) id: String,
    pub(super) line: usize,
    /// The sentence with its exemption.
    pub(super) text: String,
    pub(super) exemption: Option<Exemption>,
}

/// How an entry is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exemption {
    /// No test can name it.
    NoTest,
    /// Something is missing.
    Open,
}

impl List {
    pub(super) fn has(&self, id: &str) -> bool {
        self.entries.iter().any(|entry| entry.id == id)
    }
}

impl Entry {
    pub(super) fn is_trap(&self) -> bool {
        self.id.starts_with("trap ")
    }
}

/// Returns the entries, and a finding for each invalid or duplicate entry.
pub(super) fn parse(document: &Source) -> (List, Vec<Finding>) {
    let mut list = List { entries: Vec::new() };
    let mut findings = Vec::new();
    let mut continues = false;
    for (number, line) in document.lines() {
        if let Some(item) = line.strip_prefix("- ") {
            continues = false;
            match item.split_once(": ").filter(|(id, _)| is_id(id)) {
                Some((id, _)) if list.has(id) => {
                    findings.push(document.finding(number, format!("`{id}` is listed twice")));
                }
                Some((id, text)) => {
                    continues = true;
                    let (id, text) = (id.to_owned(), text.to_owned());
                    list.entries.push(Entry { id, line: number, text, exemption: None });
                }
                None => findings.push(document.finding(number, "an entry is `- ID: sentence`")),
            }
        } else if continues && line.starts_with("  ") {
            if let Some(entry) = list.entries.last_mut() {
                entry.text.push(' ');
                entry.text.push_str(line.trim());
            }
        } else {
            continues = false;
        }
    }
    for entry in &mut list.entries {
        entry.exemption = exemption(&entry.text);
    }
    (list, findings)
}

fn exemption(text: &str) -> Option<Exemption> {
    let (_, reason) = text.strip_suffix(')')?.rsplit_once(" (")?;
    match reason.split_once(": ")? {
        ("no test", _) => Some(Exemption::NoTest),
        ("open", _) => Some(Exemption::Open),
        _ => None,
    }
}

/// Returns whether a text is the id of a requirement (`H-4`, `U-39a`) or of a trap (`trap 9`).
pub(super) fn is_id(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(number) = text.strip_prefix("trap ") {
        return digits(number);
    }
    text.split_once('-').is_some_and(|(family, number)| {
        family.len() == 1
            && FAMILIES.contains(family)
            && digits(number.trim_end_matches(['a', 'b', 'c', 'd']))
    })
}
