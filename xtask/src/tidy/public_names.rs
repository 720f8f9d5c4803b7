//! Public names: a public type has no namesake in the product, and a type that is visible in its crate
//! (`pub(crate)`, `pub(super)`) has none in that crate.
//!
//! Two types with one name make searches and imports ambiguous. Tools and suites are not part of the
//! product and are not checked.

use std::collections::BTreeMap;

use super::{Finding, Source};

const KINDS: [&str; 5] = ["struct", "enum", "trait", "type", "union"];
/// Folders of the product.
const CHECKED: [&str; 8] = [
    "core/src/",
    "schedule/src/",
    "macros/src/",
    "storages/",
    "transports/",
    "server/src/",
    "cli/src/",
    "integrations/",
];

/// Types of one crate that may share a name, each with the reason.
const ALLOWED: [(&str, &str, &str); 6] = [
    ("cli", "List", "arguments of the command `list` of several lists"),
    ("cli", "Pause", "arguments of the command `pause` of jobs and of one-time jobs"),
    ("cli", "Selection", "arguments that select jobs or messages"),
    ("core", "Receipt", "the engine's receipt of any delivery, and a transport's of its own"),
    ("core", "Settler", "settles attempts in the engine, and deliveries in the kit of transports"),
    ("server", "Group", "one type for each operating system"),
];

/// Type of the product that other modules can name.
struct VisibleType<'a> {
    source: &'a Source,
    line: usize,
    is_public: bool,
}

pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut types: BTreeMap<&str, Vec<VisibleType<'_>>> = BTreeMap::new();
    for source in sources.iter().filter(|source| is_product(source)) {
        for (line, text) in source.code_lines() {
            if let Some((name, is_public)) = visible_type(text) {
                types.entry(name).or_default().push(VisibleType { source, line, is_public });
            }
        }
    }
    types.into_iter().flat_map(|(name, types)| namesakes(name, &types)).collect()
}

/// Returns a finding for each type that has a namesake before it: among the public types, or in its crate.
fn namesakes(name: &str, types: &[VisibleType<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, one) in types.iter().enumerate() {
        let crate_name = crate_of(one.source);
        let is_namesake = |other: &&VisibleType<'_>| {
            let shares_crate = crate_of(other.source) == crate_name;
            (one.is_public && other.is_public) || (shares_crate && !is_allowed(crate_name, name))
        };
        if let Some(first) = types[..index].iter().find(is_namesake) {
            let (path, line) = (&first.source.path, first.line);
            let what = format!(
                "`{name}` is the name of another visible type, at {path}:{line}; rename one of them"
            );
            findings.push(one.source.finding(one.line, what));
        }
    }
    findings
}

fn is_allowed(crate_name: &str, name: &str) -> bool {
    ALLOWED
        .iter()
        .any(|(allowed_crate, allowed, _)| crate_name == *allowed_crate && name == *allowed)
}

/// Returns the folder of a source's crate.
fn crate_of(source: &Source) -> &str {
    source.path.split("/src/").next().unwrap_or_default()
}

fn is_product(source: &Source) -> bool {
    source.is_rust()
        && CHECKED.iter().any(|folder| source.path.starts_with(folder))
        && source.path.contains("/src/")
}

/// Returns the name that a line declares, and whether it is public, when it declares a type that other modules can
/// name.
fn visible_type(line: &str) -> Option<(&str, bool)> {
    let rest = line.trim_start().strip_prefix("pub")?;
    let (rest, is_public) = match rest.strip_prefix('(') {
        Some(rest) => (rest.split_once(") ")?.1, false),
        None => (rest.strip_prefix(' ')?, true),
    };
    let (kind, name) = rest.split_once(' ')?;
    let end = name.find(|letter: char| !letter.is_alphanumeric());
    let name = &name[..end.unwrap_or(name.len())];
    // A macro declares `$name`.
    (KINDS.contains(&kind) && !name.is_empty()).then_some((name, is_public))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(first: &str, second: &str) -> usize {
        check(&[Source::new("core/src/a.rs", first), Source::new("server/src/b.rs", second)]).len()
    }

    fn found_in_one_crate(first: &str, second: &str) -> usize {
        check(&[Source::new("core/src/a.rs", first), Source::new("core/src/b.rs", second)]).len()
    }

    #[test]
    fn a_public_type_with_a_namesake_is_found() {
        assert_eq!(found("pub struct State;\n", "pub enum State {\n"), 1);
    }

    #[test]
    fn a_type_with_a_namesake_in_its_crate_is_found() {
        assert_eq!(found_in_one_crate("pub struct Slot;\n", "pub(crate) struct Slot;\n"), 1);
        assert_eq!(
            found_in_one_crate("pub(super) struct Slot;\n", "    pub(crate) enum Slot {\n"),
            1
        );
        let nested = "pub(in crate::engine) struct Slot;\n";
        assert_eq!(found_in_one_crate(nested, nested), 1);
    }

    #[test]
    fn types_of_other_crates_private_types_and_other_names_are_not() {
        assert_eq!(found("pub struct State;\n", "pub(crate) struct State;\n"), 0);
        assert_eq!(found("pub(crate) struct State;\n", "pub(crate) struct State;\n"), 0);
        assert_eq!(found_in_one_crate("pub struct State;\n", "struct State;\n"), 0);
        assert_eq!(found_in_one_crate("pub struct State;\n", "pub(crate) struct StateView;\n"), 0);
    }

    #[test]
    fn an_allowed_name_is_free_in_its_crate_only() {
        let settler = "pub(crate) struct Settler;\n";
        assert_eq!(found_in_one_crate("pub struct Settler;\n", settler), 0);
        let one = Source::new("server/src/a.rs", settler);
        assert_eq!(check(&[one, Source::new("server/src/b.rs", settler)]).len(), 1);
    }
}
