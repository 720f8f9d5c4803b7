//! Layers of the core: a module imports modules of its own layer and of the layers below.
//!
//! The layers are the table "Layers of the core" in `ARCHITECTURE.md`, the highest first, so that the drawing and the
//! rule cannot differ. Every top-level module of `core/src` stands in it once. Tests may import everything.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, Source};

const DOCUMENT: &str = "ARCHITECTURE.md";
const HEADING: &str = "## Layers of the core";
const FOLDER: &str = "core/src/";
/// Files above all layers: the root of the crate.
const ROOT: &str = "lib";
/// Re-exported crates, which may be imported as modules of the crate.
const REEXPORTED: [&str; 1] = ["schedule"];

pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let Some(document) = sources.iter().find(|source| source.path == DOCUMENT) else {
        return vec![Finding::new(DOCUMENT, 0, "the document is missing")];
    };
    let (heights, mut findings) = heights(document);
    let mut present = BTreeSet::new();
    for source in sources.iter().filter(|source| source.is_rust()) {
        let Some(module) = module(&source.path) else { continue };
        if module == ROOT || is_test(&source.path) {
            continue;
        }
        let Some(height) = heights.get(module) else {
            if present.insert(module) {
                let what = format!("`{module}` stands in no layer of {DOCUMENT}, \"{HEADING}\"");
                findings.push(source.finding(0, what));
            }
            continue;
        };
        present.insert(module);
        for (number, imported) in imports(source) {
            if heights.get(imported).is_some_and(|above| above > height) {
                let what = format!("`{module}` imports `{imported}` of a higher layer of the core");
                findings.push(source.finding(number, what));
            }
        }
    }
    let absent = heights.keys().filter(|module| !present.contains(*module));
    findings.extend(absent.map(|module| {
        document.finding(0, format!("\"{HEADING}\" names `{module}`, which is no module"))
    }));
    findings
}

/// Returns the height of each module in the table, from the lowest layer, and modules that stand in it twice.
fn heights(document: &Source) -> (BTreeMap<&str, usize>, Vec<Finding>) {
    let rows: Vec<(usize, &str)> = document
        .lines()
        .skip_while(|(_, line)| *line != HEADING)
        .skip(1)
        .take_while(|(_, line)| !line.starts_with("## "))
        .filter(|(_, line)| line.starts_with('|'))
        .collect();
    let mut heights = BTreeMap::new();
    let mut findings = Vec::new();
    for (height, (number, line)) in rows.iter().rev().enumerate() {
        let modules = line.split('|').nth(2).unwrap_or_default();
        // The modules are the code spans of the second column.
        for module in modules.split('`').skip(1).step_by(2) {
            if heights.insert(module, height).is_some() {
                findings.push(document.finding(*number, format!("`{module}` has two layers")));
            }
        }
    }
    if heights.is_empty() {
        findings.push(document.finding(0, format!("the table below \"{HEADING}\" is missing")));
    }
    (heights, findings)
}

/// Returns the top-level module of a file of the core.
fn module(path: &str) -> Option<&str> {
    let inner = path.strip_prefix(FOLDER)?;
    let first = inner.split('/').next()?;
    Some(first.strip_suffix(".rs").unwrap_or(first))
}

fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

/// Returns the top-level modules that a file names, with their lines; not those of its inline tests.
fn imports(source: &Source) -> Vec<(usize, &str)> {
    let end = source.text.find("#[cfg(test)]\nmod tests {").unwrap_or(source.text.len());
    let end = source.text[..end].lines().count();
    let code = source.code_lines().take_while(|(number, _)| *number <= end);
    let is_top_level = !source.path[FOLDER.len()..].contains('/');
    let mut found = Vec::new();
    for (number, line) in code {
        let mut prefixes = vec!["crate::"];
        if is_top_level {
            prefixes.push("super::");
        }
        for prefix in prefixes {
            for (start, _) in line.match_indices(prefix) {
                // A macro names the paths that other crates see.
                if line[..start].ends_with('$') {
                    continue;
                }
                let rest = &line[start + prefix.len()..];
                let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
                let name = &rest[..end.unwrap_or(rest.len())];
                // A type at the root of the crate is named by its own module inside the crate.
                if !name.is_empty() && !REEXPORTED.contains(&name) {
                    found.push((number, name));
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "## Layers of the core\n\n| layer | modules |\n|---|---|\n\
        | work | `engine` |\n| records | `model`, `error` |\n\n## Next\n\n| x | `other` |\n";

    fn check_with(files: &[(&str, &str)]) -> Vec<String> {
        let defaults =
            [("core/src/engine.rs", ""), ("core/src/model/mod.rs", ""), ("core/src/error.rs", "")];
        let mut sources = vec![Source::new(DOCUMENT, TABLE)];
        sources.extend(defaults.iter().chain(files).map(|(path, text)| Source::new(*path, *text)));
        check(&sources).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn imports_of_the_same_layer_and_below_are_accepted() {
        let files = [
            (
                "core/src/engine/worker.rs",
                "use crate::model::Message;\nuse crate::schedule::Cron;\n",
            ),
            ("core/src/model/job.rs", "use crate::error::Error;\n"),
            ("core/src/lib.rs", "pub use crate::engine::Service;\n"),
            ("core/src/error.rs", "macro_rules! m { () => { $crate::engine::run() } }\n"),
        ];
        assert_eq!(check_with(&files), Vec::<String>::new());
    }

    #[test]
    fn imports_of_a_higher_layer_are_found() {
        let found = check_with(&[("core/src/model/job.rs", "\nuse crate::engine::Worker;\n")]);
        assert_eq!(
            found,
            ["core/src/model/job.rs:2: `model` imports `engine` of a higher layer of the core"]
        );
        assert_eq!(
            check_with(&[("core/src/error.rs", "fn f() { super::engine::run() }\n")]).len(),
            1
        );
    }

    #[test]
    fn tests_may_import_everything() {
        let files = [
            ("core/src/model/job/tests.rs", "use crate::engine::Worker;\n"),
            ("core/src/model/job.rs", "#[cfg(test)]\nmod tests {\nuse crate::engine::Worker;\n}\n"),
        ];
        assert_eq!(check_with(&files), Vec::<String>::new());
    }

    #[test]
    fn a_module_without_a_layer_and_a_layer_without_a_module_are_found() {
        assert_eq!(check_with(&[("core/src/news.rs", "")]).len(), 1);
        let sources = [Source::new(DOCUMENT, TABLE), Source::new("core/src/error.rs", "")];
        assert_eq!(check(&sources).len(), 2);
    }

    #[test]
    fn a_missing_table_is_found() {
        assert_eq!(check(&[Source::new(DOCUMENT, "# Architecture\n")]).len(), 1);
    }
}
