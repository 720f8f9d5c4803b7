//! Documented commands: the command lines of the dashboard, the guides and the hints are parsed, so that each can be
//! pasted. `UPDATE=1 node --test dashboard/tests` updates those of the dashboard.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use clap::error::ErrorKind;

use crate::args::Args;

const LINES: &str = include_str!("../../dashboard/tests/commands.json");

/// Splits a line as a shell does, as far as the dashboard and the guides use quotes: single, double, or a backslash.
/// A comment or a redirection ends it.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let (mut quote, mut signs) = (None, line.chars());
    while let Some(sign) = signs.next() {
        let word = words.last_mut().unwrap();
        match (sign, quote) {
            (sign, Some(open)) if sign == open => quote = None,
            ('\'' | '"', None) => quote = Some(sign),
            ('\\', None) => word.extend(signs.next()),
            (' ', None) if word.is_empty() => {}
            (' ', None) => words.push(String::new()),
            ('#' | '>' | '<', None) if word.is_empty() => break,
            (sign, _) => word.push(sign),
        }
    }
    assert!(quote.is_none(), "{line}: a quotation has no end");
    words.pop_if(|last| last.is_empty());
    words
}

#[test]
fn every_command_of_the_dashboard_parses() {
    let lines: Vec<String> = serde_json::from_str(LINES).unwrap();
    assert!(lines.len() > 60, "only {} lines were read", lines.len());
    for line in lines.iter().flat_map(|line| line.split(" && ")) {
        if let Err(error) = Args::try_parse_from(words(line)) {
            panic!("{line}\n{error}");
        }
    }
}

/// Returns the Markdown files for users of the program.
fn guides() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let in_guide =
        fs::read_dir(root.join("docs/guide")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = in_guide.collect();
    files.extend([root.join("README.md"), root.join("packaging/README.md")]);
    files
}

// The first command of the guide to workers was one that the program refused.
#[test]
fn every_command_of_the_guides_parses() {
    let mut count = 0;
    for file in guides() {
        let text = fs::read_to_string(&file).unwrap();
        for line in text.lines().filter(|line| line.starts_with("punctual ")) {
            count += 1;
            if let Err(error) = Args::try_parse_from(words(line)) {
                panic!("{}: {line}\n{error}", file.display());
            }
        }
    }
    assert!(count > 30, "only {count} lines were read");
}

/// Returns the Rust files below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

// The hint of a refused sign-in named a command that does not exist.
#[test]
fn every_command_in_a_message_parses() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let files = ["cli/src", "server/src"].map(|folder| sources(&root.join(folder)));
    let mut count = 0;
    for file in files.iter().flatten() {
        let text = fs::read_to_string(file).unwrap();
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        for command in code.flat_map(|line| line.split('`').skip(1).step_by(2)) {
            let Some(rest) = command.strip_prefix("punctual ") else { continue };
            count += 1;
            let line = format!("punctual {}", rest.trim_end_matches(" ..."));
            // A text may name a command without its required arguments.
            let unknown = [ErrorKind::InvalidSubcommand, ErrorKind::UnknownArgument];
            match Args::try_parse_from(words(&line)) {
                Err(error) if unknown.contains(&error.kind()) => {
                    panic!("{}: {command}\n{error}", file.display());
                }
                _ => {}
            }
        }
    }
    assert!(count > 10, "only {count} commands were found");
}

#[test]
fn a_line_is_split_as_by_a_shell() {
    assert_eq!(words(r"a 'b c' 'it'\''s' --x='-y z'"), ["a", "b c", "it's", "--x=-y z"]);
    assert_eq!(words(r#"a "b 'c'"   d # e"#), ["a", "b 'c'", "d"]);
    assert_eq!(words("a b > c"), ["a", "b"]);
}

#[test]
fn an_unknown_flag_is_an_error() {
    assert!(Args::try_parse_from(words("punctual jobs pause nightly --because x")).is_err());
}
