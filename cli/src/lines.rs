//! The lines that the dashboard shows beside its buttons are read by the parser of the program, so that
//! none can be pasted in vain. `UPDATE=1 node --test dashboard/tests` writes them anew.

use clap::Parser;

use crate::args::Args;

const LINES: &str = include_str!("../../dashboard/tests/commands.json");

/// Cuts a line as a shell does, as far as the dashboard quotes: in single marks, or a mark by itself
/// behind a backslash.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let (mut quoted, mut signs) = (false, line.chars());
    while let Some(sign) = signs.next() {
        let word = words.last_mut().unwrap();
        match sign {
            '\'' => quoted = !quoted,
            '\\' if !quoted => word.extend(signs.next()),
            ' ' if !quoted => words.push(String::new()),
            sign => word.push(sign),
        }
    }
    assert!(!quoted, "{line}: a quotation has no end");
    words
}

#[test]
fn every_line_of_the_dashboard_is_understood() {
    let lines: Vec<String> = serde_json::from_str(LINES).unwrap();
    assert!(lines.len() > 60, "only {} lines were read", lines.len());
    for line in lines.iter().flat_map(|both| both.split(" && ")) {
        if let Err(error) = Args::try_parse_from(words(line)) {
            panic!("{line}\n{error}");
        }
    }
}

#[test]
fn a_line_is_cut_as_a_shell_cuts_it() {
    assert_eq!(words(r"a 'b c' 'it'\''s' --x='-y z'"), ["a", "b c", "it's", "--x=-y z"]);
}

#[test]
fn a_line_that_nobody_understands_is_told() {
    assert!(Args::try_parse_from(words("punctual jobs pause nightly --because x")).is_err());
}
