//! Public names: a public type of one crate has no namesake in another crate or module of the product.
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

pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut places: BTreeMap<&str, Vec<(&Source, usize)>> = BTreeMap::new();
    for source in sources.iter().filter(|source| is_product(source)) {
        for (number, line) in source.code_lines() {
            if let Some(name) = public_type(line) {
                places.entry(name).or_default().push((source, number));
            }
        }
    }
    let twice = places.into_iter().filter(|(_, places)| places.len() > 1);
    twice.flat_map(|(name, places)| duplicates(name, &places)).collect()
}

fn duplicates(name: &str, places: &[(&Source, usize)]) -> Vec<Finding> {
    let (first, line) = places[0];
    let path = &first.path;
    let what = format!(
        "`{name}` is the name of another public type, at {path}:{line}; rename one of them"
    );
    places[1..].iter().map(|(source, number)| source.finding(*number, what.clone())).collect()
}

fn is_product(source: &Source) -> bool {
    source.is_rust()
        && CHECKED.iter().any(|folder| source.path.starts_with(folder))
        && source.path.contains("/src/")
}

/// Returns the name that a line declares, when it declares a public type.
fn public_type(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub ")?;
    let (kind, name) = rest.split_once(' ')?;
    let end = name.find(|letter: char| !letter.is_alphanumeric());
    let name = &name[..end.unwrap_or(name.len())];
    // A macro declares `$name`.
    (KINDS.contains(&kind) && !name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(first: &str, second: &str) -> usize {
        check(&[Source::new("core/src/a.rs", first), Source::new("server/src/b.rs", second)]).len()
    }

    #[test]
    fn a_public_type_with_a_namesake_is_found() {
        assert_eq!(found("pub struct State;\n", "pub enum State {\n"), 1);
    }

    #[test]
    fn private_types_and_other_names_are_not() {
        assert_eq!(found("pub struct State;\n", "pub(crate) struct State;\n"), 0);
        assert_eq!(found("pub struct State;\n", "pub struct StateView;\n"), 0);
    }
}
