//! Headers: every Rust file begins with a comment.

use super::{Finding, Source};

pub(super) fn check(source: &Source) -> Vec<Finding> {
    if !source.is_rust() {
        return Vec::new();
    }
    let opening = source.text.lines().find(|line| !line.trim().is_empty());
    match opening {
        Some(line) if line.starts_with("//") => Vec::new(),
        _ => vec![source.finding(1, "begin the file with a comment about its purpose")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_header_is_found() {
        assert_eq!(check(&Source::new("a.rs", "use std::fs;\n")).len(), 1);
        assert_eq!(check(&Source::new("a.rs", "")).len(), 1);
        assert_eq!(check(&Source::new("a.rs", "//! The relay.\n")).len(), 0);
    }
}
