//! The coverage of small lists by small tests, and of the workspace as it is.

use super::*;

const TEST: &str = "// spec: H-1\n#[test]\nfn a() {}\n";

/// The findings of a list and one file.
fn findings(list: &str, path: &str, text: &str) -> Vec<String> {
    let coverage = Coverage::new(&Source::new(LIST, list), &[Source::new(path, text)]);
    coverage.findings().iter().map(ToString::to_string).collect()
}

/// The findings of a file whose tags are of H-1 alone.
fn about_tag(path: &str, text: &str) -> Vec<String> {
    let found = findings("- H-1: It works. (open: all of it)\n", path, text);
    found.into_iter().filter(|finding| finding.starts_with(path)).collect()
}

/// The only finding of a file.
fn problem(path: &str, text: &str) -> String {
    let found = about_tag(path, text);
    assert_eq!(found.len(), 1, "{found:?}");
    found.into_iter().next().unwrap()
}

#[test]
fn a_requirement_named_by_a_test_is_covered() {
    assert!(findings("- H-1: It works.\n", "core/src/a.rs", TEST).is_empty());
}

#[test]
fn a_requirement_without_a_test_needs_a_reason() {
    let found = findings("\n- H-2: It works,\n  also at night.\n", "core/src/a.rs", "");
    assert_eq!(found, ["docs/requirements.md:2: `H-2` is named by no test and has no reason"]);
    let list = "- H-2: It works. (no test: nothing to prove)\n- H-3: It works\n  (open: not yet)\n";
    assert!(findings(list, "core/src/a.rs", "").is_empty());
}

#[test]
fn a_reason_beside_a_test_is_refused_and_an_open_part_is_not() {
    let found = findings("- H-1: It works. (no test: too simple)\n", "core/src/a.rs", TEST);
    assert_eq!(
        found,
        ["docs/requirements.md:1: `H-1` has the remark that no test names it, but one does"]
    );
    assert!(findings("- H-1: It works. (open: half)\n", "core/src/a.rs", TEST).is_empty());
}

#[test]
fn an_id_outside_the_list_is_refused() {
    let found = about_tag("core/src/a.rs", "// spec: H-1, H-9\n#[test]\nfn a() {}\n");
    assert_eq!(found, ["core/src/a.rs:1: `H-9` is not in docs/requirements.md"]);
}

#[test]
fn words_are_no_ids() {
    let text = "// spec: reliability 7\n#[test]\nfn a() {}\n";
    assert!(problem("core/src/a.rs", text).contains("`reliability 7` is no requirement"));
    let text = "// Trap 5.5: something else\n#[test]\nfn a() {}\n";
    assert!(problem("core/src/a.rs", text).contains("`trap 5.5` is no requirement"));
}

#[test]
fn traps_are_named_alone_or_together() {
    let list = "- trap 1: Twice.\n- trap 2: Never.\n";
    let text = "// Traps 1, 2: explained\n// in two lines\n#[tokio::test]\nasync fn a() {}\n";
    assert!(findings(list, "core/src/a.rs", text).is_empty());
    let found = findings(list, "core/src/a.rs", "// trap 1\n#[test]\nfn a() {}\n");
    assert_eq!(found, ["docs/requirements.md:2: `trap 2` is named by no test and has no reason"]);
}

#[test]
fn a_tag_above_nothing_is_refused_and_names_nothing() {
    for text in
        ["// spec: H-1\n", "// spec: H-1\n\n#[test]\nfn a() {}\n", "// spec: H-1\nlet a = 1;\n"]
    {
        assert!(problem("core/src/a.rs", text).contains("directly above its test"), "{text}");
    }
    assert_eq!(findings("- H-1: It works.\n", "core/src/a.rs", "// spec: H-1\n").len(), 2);
}

#[test]
fn a_function_that_is_no_test_is_refused() {
    for text in ["// spec: H-1\nfn a() {}\n", "// spec: H-1\n#[cfg(test)]\npub fn a() {}\n"] {
        assert!(problem("core/src/a.rs", text).contains("`a` below this tag is no test"), "{text}");
    }
}

#[test]
fn a_case_counts_when_its_suite_lists_it() {
    let listed = "behaviours! { waits }\n// spec: H-1\npub async fn waits(f: Fixture) {}\n";
    assert!(about_tag("testing/conformance/src/storage/claim.rs", listed).is_empty());
    assert!(about_tag("storages/sqlite/tests/it/claim.rs", listed).is_empty());
    assert_eq!(about_tag("core/src/claim.rs", listed).len(), 1);
    let forgotten = "// spec: H-1\npub async fn waits(f: Fixture) {} // waits\n";
    assert_eq!(about_tag("testing/conformance/src/storage/claim.rs", forgotten).len(), 1);
    assert!(about_tag("core/tests/conformance.rs", "// spec: H-1\nfn main() {}\n").is_empty());
}

#[test]
fn tests_of_other_languages_count() {
    assert!(
        about_tag("testing/browser/a.test.mjs", "// spec: H-1\ntest('waits', () => {});\n")
            .is_empty()
    );
    assert!(about_tag("clients/test_a.py", "# spec: H-1\ndef test_waits():\n").is_empty());
    assert_eq!(about_tag("testing/browser/a.test.mjs", "// spec: H-1\nconst a = 1;\n").len(), 1);
}

#[test]
fn the_list_is_free_of_doubles_and_of_unknown_ids() {
    let found = findings("- H-1: It works.\n- H-1: Again.\n- X-1: What?\n", "core/src/a.rs", TEST);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("`H-1` is listed twice"));
    assert!(found[1].contains("an entry is `- ID: sentence`"));
}

#[test]
fn the_listing_names_files_and_the_summary_counts() {
    let list =
        "- H-1: It works.\n- U-39a: So.\n  (no test: a\n  reason)\n- C-1: Half. (open: half)\n";
    let coverage = Coverage::new(&Source::new(LIST, list), &[Source::new("core/src/a.rs", TEST)]);
    assert!(
        coverage
            .listing()
            .starts_with("H-1: It works.\n    core/src/a.rs\nU-39a: So. (no test: a reason)\n")
    );
    assert_eq!(
        coverage.summary(),
        "3 requirements: 1 named by tests, 1 with a reason for no test, 1 open; 0 traps"
    );
}

/// The list and the tests of the tree as it is agree, also where only the tests are run.
#[test]
fn every_requirement_of_this_workspace_is_named_or_has_a_reason() {
    let coverage = Coverage::read(&Workspace::find().unwrap()).unwrap();
    let lines: Vec<String> = coverage.findings().iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "\n{}", lines.join("\n"));
}
