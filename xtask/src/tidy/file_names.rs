//! File names: a file is named after its content; names without a meaning are refused.

use super::{Finding, Source};

const EMPTY_NAMES: [&str; 10] = [
    "util", "utils", "common", "helper", "helpers", "types", "misc", "manager", "managers", "impl",
];

pub(super) fn check(source: &Source) -> Vec<Finding> {
    if !source.is_rust() {
        return Vec::new();
    }
    let stem = source.path.trim_end_matches(".rs");
    stem.split('/')
        .filter(|part| EMPTY_NAMES.contains(part))
        .map(|part| {
            source.finding(0, format!("`{part}` has no meaning; name the content of the file"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_names_are_found_for_files_and_folders() {
        assert_eq!(check(&Source::new("core/src/util.rs", "")).len(), 1);
        assert_eq!(check(&Source::new("core/src/common/retry.rs", "")).len(), 1);
        assert_eq!(check(&Source::new("core/src/policy/retry.rs", "")).len(), 0);
    }
}
