//! The first contact with the library is short, and the README shows exactly what is compiled.

const HELLO: &str = include_str!("../../examples/hello.rs");
const CRON: &str = include_str!("../../examples/cron.rs");
const README: &str = include_str!("../../../README.md");

/// The example without its opening, which holds what only our own lints ask for.
fn code(example: &str) -> &str {
    let (_, code) = example.split_once("\n\n").unwrap();
    code
}

fn lines(example: &str) -> usize {
    code(example).lines().filter(|line| !line.trim().is_empty()).count()
}

#[test]
fn a_first_job_takes_fifteen_lines_and_a_schedule_three_more() {
    assert!(lines(HELLO) <= 15, "{} lines", lines(HELLO));
    assert!(lines(CRON) <= lines(HELLO) + 3, "{} lines", lines(CRON));
}

#[test]
fn the_readme_shows_what_is_compiled() {
    let shown = format!("```rust,no_run\n{}```\n", code(HELLO));
    assert!(README.contains(&shown), "the README does not show core/examples/hello.rs as it is");
    for line in code(CRON).lines().filter(|line| !code(HELLO).contains(line)) {
        assert!(README.contains(line.trim()), "the README does not show {line:?}");
    }
}
