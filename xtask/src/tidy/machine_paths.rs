//! Machine paths: no file contains an absolute path of a developer's machine.

use super::{Finding, Source};

const MACHINE: [&str; 4] = ["/work", "/root", "/home", "/Users"];

pub(super) fn check(source: &Source) -> Vec<Finding> {
    if source.is_a_rule() {
        return Vec::new();
    }
    source
        .lines()
        // The path of an endpoint is no folder.
        .filter(|(_, line)| !line.contains("utoipa::path(") && !line.contains("\"/work/bye\""))
        .filter(|(_, line)| MACHINE.iter().any(|start| names_folder(line, start)))
        .map(|(number, _)| source.finding(number, "a path of one machine"))
        .collect()
}

/// Returns whether an absolute path begins with this folder, so that `a/home/b` and `/homely` are accepted.
fn names_folder(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + folder.len()..].chars().next();
        let begins =
            !before.is_some_and(|letter| letter.is_alphanumeric() || ".-_/*~}".contains(letter));
        begins && after == Some('/')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        check(&Source::new("docs/guide/start.md", text)).len()
    }

    #[test]
    fn absolute_machine_paths_are_found() {
        assert_eq!(count("see /home/ada/notes\n"), 1);
        assert_eq!(count("let x = \"/root/file\";\n"), 1);
        assert_eq!(count("(/work/main)\n"), 1);
    }

    #[test]
    fn other_slashes_are_not() {
        assert_eq!(count("../work/main, storages/home/x, /workers/3, https://a.b/home/\n"), 0);
    }
}
