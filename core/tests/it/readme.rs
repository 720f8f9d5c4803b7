//! README: the first program is short, and the README shows exactly the compiled code.

const HELLO: &str = include_str!("../../../examples/src/hello.rs");
const CRON: &str = include_str!("../../../examples/src/cron.rs");
const README: &str = include_str!("../../../README.md");

/// Returns the code of an example without its header, which only our own lints need, and without its
/// expected output.
fn code(example: &str) -> &str {
    let (_, code) = example.split_once("\n\n").unwrap();
    let (code, _) = code.split_once("\n// Output:").unwrap();
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

// spec: U-48
#[test]
fn the_readme_shows_compiled_code() {
    let shown = format!("```rust,no_run\n{}```\n", code(HELLO));
    assert!(README.contains(&shown), "the README does not show examples/src/hello.rs as it is");
    for line in code(CRON).lines().filter(|line| !code(HELLO).contains(line)) {
        assert!(README.contains(line.trim()), "the README does not show {line:?}");
    }
}

/// Returns the compiled code blocks of a document.
fn blocks(document: &str) -> Vec<&str> {
    let opened = document.split("```rust").skip(1);
    opened
        .filter_map(|block| block.split_once("\n```"))
        .map(|(block, _)| block)
        .filter(|block| !block.starts_with(",ignore"))
        .collect()
}

// spec: U-48
#[test]
fn the_readme_declares_a_job_by_attribute_and_by_the_builder() {
    let shows = |text: &str| blocks(README).iter().any(|block| block.contains(text));
    assert!(shows("#[job(") && shows(".discover()"), "by attribute");
    assert!(shows(".job(Job::cron("), "by the builder");
}

// spec: H-74
#[test]
fn the_readme_leads_to_every_subject_and_the_guide_is_about_it() {
    let jobs = include_str!("../../../docs/guide/jobs.md");
    let handlers = include_str!("../../../docs/guide/handlers.md");
    let operating = include_str!("../../../docs/guide/operating.md");
    let testing = include_str!("../../../docs/guide/testing.md");
    for (subject, shown, link, guide, content) in [
        ("one-time jobs", "jobs.once(", "docs/guide/jobs.md", jobs, "jobs.once("),
        (
            "misfires",
            "Misfire::fire_once()",
            "docs/guide/jobs.md",
            jobs,
            "## What happens after an outage",
        ),
        (
            "timeouts",
            "`.timeout(..)`",
            "docs/guide/handlers.md",
            handlers,
            ".timeout(Duration::from_secs(30))",
        ),
        (
            "stale messages",
            "Options::lease_duration",
            "docs/guide/operating.md",
            operating,
            "## Processes that died",
        ),
        (
            "schedules alone",
            "options.scheduling",
            "docs/guide/operating.md",
            operating,
            "## Parts of a process",
        ),
        ("health", "Admin::health", "docs/guide/operating.md", operating, "## Status and health"),
        (
            "configuration",
            ".configure_from_env()",
            "docs/guide/operating.md",
            operating,
            "## Configuration",
        ),
        (
            "the storage in memory",
            "`TestHarness`",
            "docs/guide/testing.md",
            testing,
            "TestHarness::start(",
        ),
    ] {
        let row = README.lines().find(|line| line.starts_with('|') && line.contains(shown));
        assert!(row.is_some_and(|row| row.contains(link)), "the README does not lead to {subject}");
        assert!(guide.contains(content), "{link} is not about {subject}");
    }
}
