//! Report of nextest in the `JUnit` format: duration and result of each test.
//!
//! Only the two elements that nextest writes for a test are read; the names of Rust tests need no
//! decoding of XML entities.

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::workspace::Workspace;

/// Path of nextest's report, set in `.config/nextest.toml`.
const FILE: &str = "nextest/default/junit.xml";

/// One test of a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TestTime {
    pub(crate) binary: String,
    pub(crate) name: String,
    pub(crate) seconds: f64,
    pub(crate) failed: bool,
}

impl fmt::Display for TestTime {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:7.1} s  {} {}", self.seconds, self.binary, self.name)
    }
}

/// Removes the report of an earlier run, so that it cannot be taken for the report of the next.
pub(crate) fn clear(workspace: &Workspace) {
    let _ = fs::remove_file(workspace.target().join(FILE));
}

/// Reads the report of the last run.
pub(crate) fn read(workspace: &Workspace) -> Result<Vec<TestTime>> {
    read_file(&workspace.target().join(FILE))
}

fn read_file(path: &Path) -> Result<Vec<TestTime>> {
    let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    Ok(parse(&text))
}

/// Returns the slowest tests, the slowest first.
pub(crate) fn slowest(mut tests: Vec<TestTime>, count: usize) -> Vec<TestTime> {
    tests.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    tests.truncate(count);
    tests
}

fn parse(text: &str) -> Vec<TestTime> {
    let cases = text.split("<testcase ").skip(1);
    cases.filter_map(|case| test(case.split("</testcase>").next().unwrap_or(case))).collect()
}

/// Reads one element, given the text behind its opening tag.
fn test(case: &str) -> Option<TestTime> {
    let (tag, inside) = case.split_once('>')?;
    let attribute = |name: &str| {
        let (_, rest) = tag.split_once(&format!("{name}=\""))?;
        rest.split_once('"').map(|(value, _)| value)
    };
    let failed = inside.contains("<failure") || inside.contains("<error");
    Some(TestTime {
        binary: attribute(" classname")?.to_owned(),
        name: tag.strip_prefix("name=\"")?.split_once('"')?.0.to_owned(),
        seconds: attribute(" time")?.parse().ok()?,
        failed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" tests="3" failures="1" errors="0" uuid="1" timestamp="t" time="9.1">
  <testsuite name="punctual::it" tests="2" disabled="0" errors="0" failures="1">
    <testcase name="leases::a_lease_is_renewed" classname="punctual::it" timestamp="t" time="0.250">
    </testcase>
    <testcase name="leases::a_lease_ends" classname="punctual::it" timestamp="t" time="3.5">
      <failure type="test failure">boom</failure>
    </testcase>
  </testsuite>
  <testsuite name="xtask" tests="1"><testcase name="x" classname="xtask" timestamp="t" time="1"/></testsuite>
</testsuites>"#;

    #[test]
    fn every_test_is_read_with_its_time_and_result() {
        let tests = parse(REPORT);
        let names: Vec<&str> = tests.iter().map(|test| &*test.name).collect();
        assert_eq!(names, ["leases::a_lease_is_renewed", "leases::a_lease_ends", "x"]);
        assert_eq!(tests.iter().map(|test| test.failed).collect::<Vec<_>>(), [false, true, false]);
        assert_eq!(tests[0].binary, "punctual::it");
    }

    #[test]
    fn the_slowest_come_first() {
        let slowest = slowest(parse(REPORT), 2);
        assert_eq!(slowest.iter().map(|test| test.seconds).collect::<Vec<_>>(), [3.5, 1.0]);
    }

    #[test]
    fn an_empty_report_has_no_tests() {
        assert_eq!(parse(""), []);
    }
}
