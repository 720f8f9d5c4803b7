//! Security tests: each test that a table of the security documents names exists. A table counts when its last column is
//! called `test`; a name is one in backticks there, a function or a module, by as much of its path as is written. A
//! function has a test attribute, or is a case that its file lists for a suite; a module has such a function inside.

use std::collections::BTreeSet;

use super::{Finding, Source, is_test_attribute};

/// The documents whose tables name tests.
const DOCUMENTS: [&str; 2] = ["docs/security.md", "docs/guide/security.md"];
/// Beginning of a list of cases of a suite.
const LISTS: [&str; 4] = ["behaviours! {", "behaviours![", "cases! {", "cases!["];
/// Parts of a path of a file that are no part of a path of Rust.
const NO_MODULES: [&str; 6] = ["src", "tests", "it", "lib.rs", "main.rs", "mod.rs"];

pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let documents = sources.iter().filter(|source| DOCUMENTS.contains(&source.path.as_str()));
    let named: Vec<_> = documents.flat_map(|source| named(source)).collect();
    if named.is_empty() {
        return Vec::new();
    }
    let declared: Vec<Declared> =
        sources.iter().filter(|one| one.is_rust()).flat_map(declarations).collect();
    let known = tests_and_their_modules(&declared);
    // Every end of every path, so that a name is looked up and not looked for.
    let mut ends = BTreeSet::new();
    for path in known {
        ends.insert(path);
        ends.extend(path.match_indices("::").map(|(place, _)| &path[place + 2..]));
    }
    let unknown = named.into_iter().filter(|(_, _, name)| !ends.contains(name.as_str()));
    unknown
        .map(|(source, line, name)| {
            source
                .finding(line, format!("`{name}` is the name of no test and of no module with one; is it called otherwise?"))
        })
        .collect()
}

/// Returns the names in the last column of tables about tests, with their lines.
fn named(source: &Source) -> Vec<(&Source, usize, String)> {
    let (mut found, mut is_about_tests) = (Vec::new(), false);
    for (number, line) in source.lines() {
        let Some(row) = line.strip_prefix('|').and_then(|line| line.trim_end().strip_suffix('|'))
        else {
            is_about_tests = false;
            continue;
        };
        let last = row.rsplit('|').next().unwrap_or_default().trim();
        if !is_about_tests {
            is_about_tests = last == "test";
            continue;
        }
        let names = last.split('`').skip(1).step_by(2).filter(|name| is_path(name));
        found.extend(names.map(|name| (source, number, name.to_owned())));
    }
    found
}

fn is_path(name: &str) -> bool {
    let is_part = |part: &str| {
        let is_letter =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        !part.is_empty() && part.bytes().all(is_letter)
    };
    name.split("::").all(is_part)
}

/// A module, a function or a test, by its path.
struct Declared {
    path: String,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Module,
    Function,
    Test,
}

/// Returns the paths of all tests, and of the modules that contain one.
fn tests_and_their_modules(declared: &[Declared]) -> BTreeSet<&str> {
    let of_kind = |kind: Kind| declared.iter().filter(move |one| one.kind == kind);
    let tests: BTreeSet<&str> = of_kind(Kind::Test).map(|test| test.path.as_str()).collect();
    let has_test = |module: &&Declared| {
        let start = format!("{}::", module.path);
        tests.range(start.as_str()..).next().is_some_and(|test| test.starts_with(&start))
    };
    let modules = of_kind(Kind::Module).filter(has_test).map(|module| module.path.as_str());
    modules.chain(tests.iter().copied()).collect()
}

/// Returns the modules and functions of a file.
fn declarations(source: &Source) -> Vec<Declared> {
    let parts = source.path.split('/').filter(|part| !NO_MODULES.contains(part));
    let file = parts.map(|part| part.trim_end_matches(".rs")).collect::<Vec<_>>().join("::");
    let mut found = vec![Declared { path: file.clone(), kind: Kind::Module }];
    let cases = cases(source);
    // Modules in the file that hold the line, each with the blanks before it.
    let mut inside: Vec<(usize, &str)> = Vec::new();
    let mut has_attribute = false;
    for (_, line) in source.code_lines() {
        let code = line.trim();
        let blanks = line.len() - line.trim_start().len();
        if code.starts_with('}') {
            inside.retain(|(before, _)| *before < blanks);
        }
        if code.starts_with("#[") {
            has_attribute |= is_test_attribute(code);
            continue;
        }
        let is_test = has_attribute;
        // Only comments and attributes stand between an attribute and its function.
        has_attribute &= code.is_empty();
        let (name, kind) = match (declared(line, "mod "), declared(line, "fn ")) {
            (Some(name), _) => (name, Kind::Module),
            (None, Some(name)) if is_test || cases.contains(name) => (name, Kind::Test),
            (None, Some(name)) => (name, Kind::Function),
            (None, None) => continue,
        };
        let modules = inside.iter().map(|(_, module)| *module);
        let path: Vec<&str> = [file.as_str()].into_iter().chain(modules).chain([name]).collect();
        found.push(Declared { path: path.join("::"), kind });
        if code.ends_with('{') && kind == Kind::Module {
            inside.push((blanks, name));
        }
    }
    found
}

/// Returns the functions that a file lists as cases of a suite.
fn cases(source: &Source) -> BTreeSet<&str> {
    let (mut found, mut is_listed) = (BTreeSet::new(), false);
    for (_, line) in source.code_lines() {
        let list = LISTS.iter().find_map(|list| line.split_once(list));
        let rest = match list {
            Some((_, rest)) => rest,
            None if is_listed => line,
            None => continue,
        };
        let names = rest.split(['}', ']']).next().unwrap_or_default();
        is_listed = names.len() == rest.len();
        let names = names.split(',').filter_map(|name| name.split_whitespace().next());
        found.extend(names);
    }
    found
}

/// Returns the name that a line declares after a word.
fn declared<'a>(line: &'a str, word: &str) -> Option<&'a str> {
    let (before, after) = line.split_once(word)?;
    let mut words = before.split_whitespace();
    let is_declaration =
        words.all(|one| one.starts_with("pub") || one == "async" || one == "const");
    let name = after.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()?;
    (is_declaration && !name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "| `Host` here | test |\n|---|---|\n";

    fn findings(row: &str) -> Vec<Finding> {
        let guide = Source::new(DOCUMENTS[1], format!("{TABLE}| `Host` here | {row} |\n"));
        let inline = "pub(crate) mod tests {\n    #[test]\n    fn one() {\n    }\n}\nfn two() {}\n";
        let logins = "#[tokio::test]\n// A word.\nasync fn a_guess() {}\nfn helper() {}\n";
        let listed = "cases! {\n    listed,\n    also_listed,\n}\nasync fn listed() {}\nasync fn also_listed() {}\nasync fn left_out() {}\n";
        let needs = "behaviours![waits needs Delays Settling, ends];\nasync fn waits() {}\n";
        let sources = [
            guide,
            Source::new("server/tests/it/logins.rs", logins),
            Source::new("server/src/auth/seats.rs", inline),
            Source::new("server/src/auth/throttle/tests.rs", "#[test]\nfn three() {}\n"),
            Source::new("server/src/auth/quiet.rs", "mod tests {\n    fn four() {}\n}\n"),
            Source::new("storages/postgres/tests/it/sql.rs", listed),
            Source::new("testing/conformance/src/transport/delays.rs", needs),
            Source::new("server/tests/it/main.rs", "mod logins;\n"),
        ];
        check(&sources)
    }

    #[test]
    fn names_of_tests_and_of_modules_with_tests_are_found() {
        for name in [
            "logins",
            "logins::a_guess",
            "a_guess",
            "auth::seats",
            "auth::seats::tests",
            "seats::tests::one",
            "auth::throttle::tests",
            "sql",
            "sql::listed",
            "also_listed",
            "delays::waits",
        ] {
            assert_eq!(findings(&format!("`{name}` of the server")), [], "{name}");
        }
    }

    #[test]
    fn a_name_of_nothing_is_found() {
        for name in [
            "logouts",
            "logins::another",
            "seats::one",
            "auth::logins",
            "tests::two",
            "gins::a_guess",
        ] {
            let found = findings(&format!("`logins::a_guess`, `{name}`"));
            assert_eq!(found.len(), 1, "{name}: {found:?}");
        }
    }

    #[test]
    fn functions_without_a_test_are_found() {
        for name in
            ["logins::helper", "auth::seats::two", "auth::quiet", "quiet::tests", "left_out"]
        {
            let found = findings(&format!("`{name}`"));
            assert_eq!(found.len(), 1, "{name}: {found:?}");
        }
    }

    #[test]
    fn other_tables_and_other_columns_are_left_alone() {
        let text = "| `nothing` | `no` |\n|---|---|\n| `nothing` | `none` |\n\n`nothing`\n";
        assert_eq!(check(&[Source::new(DOCUMENTS[0], text)]), []);
        assert_eq!(findings("`GET /health`, `auth.mode`"), []);
    }
}
