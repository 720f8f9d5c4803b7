//! Dependency rules between crates, checked in the manifests and in the code.
//!
//! A storage or a transport depends on no crate of ours but the core, and the column codecs that the SQL
//! storages share; an integration depends on the core only; the core on none of them; only `backends/`, which opens
//! them by address, names concrete ones. Back-ends are recognized by their folder, so the rule applies to a new one
//! from its first commit.

use super::source::has_word;
use super::{Finding, Source};

const FAMILIES: [&str; 2] = ["storages/", "transports/"];
/// Tests of a back-end may use the shared suite.
const SUITE: &str = "punctual-conformance";
/// The column codecs that the SQL storages share: below `storages/`, but not a back-end.
const COLUMNS: &str = "punctual-columns";
/// The folder of that crate.
const COLUMNS_FOLDER: &str = "storages/columns/";
/// Crates that the core depends on; neither depends on the core.
const PARTS: [&str; 2] = ["punctual-macros", "punctual-schedule"];
/// The crate that opens storages by address.
const BACKENDS: &str = "backends/";
/// Crates that connect the core with other libraries.
const INTEGRATIONS: &str = "integrations/";
/// Folders outside the product: they demonstrate and measure concrete back-ends.
const OUTSIDE: [&str; 5] =
    ["examples/", "testing/bench/", "testing/chaos/", "testing/soak/", "xtask/"];

pub(crate) fn dependency_rules(sources: &[Source]) -> Vec<Finding> {
    let back_ends: Vec<String> = sources.iter().filter_map(back_end).collect();
    let mut findings = Vec::new();
    for source in sources {
        if source.path.ends_with("Cargo.toml") {
            findings.extend(manifest(source, &back_ends));
        } else if source.is_rust() {
            findings.extend(code(source, &back_ends));
        }
    }
    findings
}

/// Returns the package name of a back-end, when this is its manifest.
fn back_end(source: &Source) -> Option<String> {
    if source.path.starts_with(COLUMNS_FOLDER) {
        return None;
    }
    let inner = source.path.strip_suffix("/Cargo.toml")?;
    let name = FAMILIES.iter().find_map(|family| inner.strip_prefix(family))?;
    Some(format!("punctual-{name}"))
}

fn manifest(source: &Source, back_ends: &[String]) -> Vec<Finding> {
    let mut section = "";
    let mut findings = Vec::new();
    for (number, line) in source.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.starts_with('[') {
            section = line;
        }
        if !section.contains("dependencies") || section.starts_with("[workspace") {
            continue;
        }
        for package in our_packages(line) {
            if let Some(what) = refusal(source, section, package, back_ends) {
                findings.push(source.finding(number, what));
            }
        }
    }
    findings
}

/// Returns the reason why this manifest may not depend on that package of ours.
fn refusal(source: &Source, section: &str, package: &str, back_ends: &[String]) -> Option<String> {
    let folder = source.path.trim_end_matches("Cargo.toml");
    let is_back_end = back_end(source).is_some();
    let for_tests = section.contains("dev-dependencies");
    let shares_columns = folder.starts_with("storages/") && package == COLUMNS;
    if is_back_end && !shares_columns && !(for_tests && package == SUITE) {
        return Some(format!("a back-end depends on the core only, not on `{package}`"));
    }
    if folder == "core/" && !for_tests && !PARTS.contains(&package) {
        return Some(format!("the core does not know `{package}`"));
    }
    let is_part = PARTS.iter().any(|part| folder == part.replace("punctual-", "") + "/");
    if is_part && !for_tests && package != "punctual-schedule" {
        return Some(format!("a part of the core does not know `{package}`"));
    }
    if folder.starts_with(INTEGRATIONS) && !for_tests {
        return Some(format!("an integration depends on the core only, not on `{package}`"));
    }
    if folder == COLUMNS_FOLDER && !for_tests {
        return Some(format!("the column codecs depend on the core only, not on `{package}`"));
    }
    let may_name = folder == BACKENDS || OUTSIDE.contains(&folder);
    if !may_name && !for_tests && back_ends.iter().any(|name| name == package) {
        return Some(format!("only {BACKENDS} names back-ends such as `{package}`"));
    }
    None
}

/// Names of the form `punctual-something`; the core itself is `punctual` alone.
fn our_packages(line: &str) -> impl Iterator<Item = &str> {
    line.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '-'))
        .filter(|word| word.starts_with("punctual-"))
}

fn code(source: &Source, back_ends: &[String]) -> Vec<Finding> {
    let of_product = !OUTSIDE.iter().any(|folder| source.path.starts_with(folder))
        && !FAMILIES.iter().any(|family| source.path.starts_with(family));
    if source.path.starts_with(BACKENDS) || !of_product || source.path.contains("/tests/") {
        return Vec::new();
    }
    let names: Vec<String> = back_ends.iter().map(|name| name.replace('-', "_")).collect();
    source
        .code_lines()
        .filter(|(_, line)| names.iter().any(|name| has_word(line, name)))
        .map(|(number, _)| source.finding(number, format!("only {BACKENDS} names back-ends")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SQLITE: &str = "[package]\nname = \"punctual-sqlite\"\n[dependencies]\npunctual.workspace = true\n\
                          [dev-dependencies]\npunctual-conformance.workspace = true\n";

    fn count(files: &[(&str, &str)]) -> usize {
        let mut sources = vec![Source::new("storages/sqlite/Cargo.toml", SQLITE)];
        sources.extend(files.iter().map(|(path, text)| Source::new(*path, *text)));
        dependency_rules(&sources).len()
    }

    #[test]
    fn a_back_end_on_the_core_alone_is_fine() {
        assert_eq!(count(&[]), 0);
    }

    #[test]
    fn a_back_end_that_depends_on_another_is_found() {
        let text = "[dependencies]\npunctual-sqlite.workspace = true\n";
        assert_eq!(count(&[("transports/redis/Cargo.toml", text)]), 1);
        let renamed = "[dependencies.store]\npackage = \"punctual-sqlite\"\n";
        assert_eq!(count(&[("transports/redis/Cargo.toml", renamed)]), 1);
    }

    #[test]
    fn only_storages_share_column_codecs() {
        let text = "[dependencies]\npunctual-columns.workspace = true\n";
        assert_eq!(count(&[("storages/postgres/Cargo.toml", text)]), 0);
        assert_eq!(count(&[("transports/redis/Cargo.toml", text)]), 1);
    }

    #[test]
    fn the_column_codecs_are_no_back_end_and_know_the_core_alone() {
        let on_columns = "[dependencies]\npunctual-columns.workspace = true\n";
        let on_core = "[dependencies]\npunctual.workspace = true\n";
        let shared = [
            ("storages/columns/Cargo.toml", on_core),
            ("storages/postgres/Cargo.toml", on_columns),
        ];
        assert_eq!(count(&shared), 0);
        let text = "[dependencies]\npunctual-sqlite.workspace = true\n";
        assert_eq!(count(&[("storages/columns/Cargo.toml", text)]), 1);
    }

    #[test]
    fn the_suite_is_for_tests_only() {
        let text = "[dependencies]\npunctual-conformance.workspace = true\n";
        assert_eq!(count(&[("transports/redis/Cargo.toml", text)]), 1);
    }

    #[test]
    fn the_core_depends_on_no_other_crate() {
        let text = "[dependencies]\npunctual-server.workspace = true\n";
        assert_eq!(count(&[("core/Cargo.toml", text)]), 1);
    }

    #[test]
    fn the_core_has_two_parts_that_do_not_know_it() {
        let both = "[dependencies]\npunctual-macros = { workspace = true }\npunctual-schedule.workspace = true\n";
        assert_eq!(count(&[("core/Cargo.toml", both)]), 0);
        assert_eq!(count(&[("schedule/Cargo.toml", both)]), 1);
        let schedule = "[dependencies]\npunctual-schedule.workspace = true\n";
        assert_eq!(count(&[("macros/Cargo.toml", schedule)]), 0);
    }

    #[test]
    fn an_integration_depends_on_the_core_only() {
        let text = "[dependencies]\npunctual.workspace = true\n";
        assert_eq!(count(&[("integrations/axum/Cargo.toml", text)]), 0);
        let other = "[dependencies]\npunctual-tower.workspace = true\n";
        assert_eq!(count(&[("integrations/axum/Cargo.toml", other)]), 1);
    }

    #[test]
    fn only_connect_names_back_ends() {
        let text = "[dependencies]\npunctual-sqlite = { workspace = true, optional = true }\n";
        assert_eq!(count(&[("cli/Cargo.toml", text)]), 1);
        assert_eq!(count(&[("server/Cargo.toml", text)]), 1);
        assert_eq!(count(&[("backends/Cargo.toml", text)]), 0);
        let code = "use punctual_sqlite::SqliteStorage;\n";
        assert_eq!(count(&[("server/src/config.rs", code)]), 1);
        assert_eq!(count(&[("backends/src/opened_storage.rs", code)]), 0);
        assert_eq!(count(&[("examples/src/outbox.rs", code)]), 0);
    }
}
