//! Tally of tests, read from the output of the test runners.
//!
//! Four runners are understood: the standard harness (`test result: ok. 3 passed; ...`), nextest
//! (`Summary [0.1s] 3 tests run: 3 passed, 1 skipped`), Node's (`pass 3` and `fail 1` on lines of their
//! own) and schemathesis (`30 generated, 30 passed, 1 skipped`). The caller passes the runner:
//! nextest repeats the harness's lines when it shows a failure, and they would be counted again. The
//! exit status of a runner is checked in `cargo.rs`.

use std::ops::AddAssign;

/// The program that runs the tests and prints the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runner {
    Harness,
    Nextest,
    /// `node --test`, with the reporter `spec` or `tap`.
    Node,
    /// `schemathesis run`: each generated call is a test.
    Schemathesis,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
}

impl Tally {
    /// A passed step that is no test run.
    pub(crate) const ONE_PASSED: Self = Self { passed: 1, failed: 0, ignored: 0 };

    /// A failed step that is no test run, or a test run that failed before it counted.
    pub(crate) const ONE_FAILED: Self = Self { passed: 0, failed: 1, ignored: 0 };

    pub(crate) fn ran(self) -> u64 {
        self.passed + self.failed
    }

    /// Counts the tests that one line of a runner's output reports.
    pub(crate) fn from_line(runner: Runner, line: &str) -> Self {
        let plain = without_colour(line);
        let plain = plain.trim();
        let counts = match runner {
            Runner::Harness => plain.strip_prefix("test result: "),
            Runner::Nextest => plain
                .strip_prefix("Summary [")
                .and_then(|rest| rest.split_once("run: "))
                .map(|(_, counts)| counts),
            Runner::Node if file_without_tests(plain).is_some() => return Self::ONE_FAILED,
            Runner::Node => return Self::from_node(plain),
            Runner::Schemathesis => return Self::from_schemathesis(plain),
        };
        Self::from_counts(counts.unwrap_or_default().split(['.', ';', ',']))
    }

    /// Counts one line of the summary of Node's runner: `ℹ pass 3` of the reporter `spec`, `# pass 3` of `tap`.
    fn from_node(line: &str) -> Self {
        let mut words = line.split_whitespace();
        let (Some("ℹ" | "#"), Some(kind), Some(count), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Self::default();
        };
        let count = count.parse().unwrap_or_default();
        match kind {
            "pass" => Self { passed: count, ..Self::default() },
            "fail" | "cancelled" => Self { failed: count, ..Self::default() },
            "skipped" | "todo" => Self { ignored: count, ..Self::default() },
            _ => Self::default(),
        }
    }

    /// Counts the summary of schemathesis. Its first number has all calls, and `passed` repeats it; `skipped`
    /// are calls without an applicable check, which are not counted.
    fn from_schemathesis(line: &str) -> Self {
        let mut pieces = line.split(", ").map(|piece| {
            let (count, word) = piece.split_once(' ').unwrap_or_default();
            (count.parse::<u64>().unwrap_or_default(), word)
        });
        let Some((generated, "generated")) = pieces.next() else { return Self::default() };
        let (mut failed, mut unchecked) = (0, 0);
        for (count, word) in pieces {
            match word.split(' ').next() {
                Some("found" | "errored") => failed += count,
                Some("skipped") => unchecked += count,
                _ => {}
            }
        }
        let passed = generated.saturating_sub(failed + unchecked);
        Self { passed, failed, ignored: 0 }
    }

    fn from_counts<'a>(pieces: impl Iterator<Item = &'a str>) -> Self {
        let mut tally = Self::default();
        for piece in pieces {
            let mut words = piece.split_whitespace();
            let Some(count) = words.next().and_then(|word| word.parse::<u64>().ok()) else {
                continue;
            };
            match words.next() {
                Some("passed") => tally.passed += count,
                Some("failed" | "timed" | "exec") => tally.failed += count,
                Some("ignored" | "skipped") => tally.ignored += count,
                _ => {}
            }
        }
        tally
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }
}

/// Returns the file that a line of Node's runner reports as one passed test. Node does so when the file
/// declares no test.
pub(crate) fn file_without_tests(line: &str) -> Option<&str> {
    let name = line.trim().strip_prefix("✔ ")?.split(" (").next()?;
    (name.ends_with(".test.js") || name.ends_with(".test.mjs")).then_some(name)
}

/// Drops terminal colour sequences (`ESC [ ... letter`), which a person's settings may force on.
fn without_colour(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        if letter == '\u{1b}' {
            letters.by_ref().find(char::is_ascii_alphabetic);
        } else {
            plain.push(letter);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(runner: Runner, line: &str, counts: [u64; 3]) {
        let [passed, failed, ignored] = counts;
        let expected = Tally { passed, failed, ignored };
        assert_eq!(Tally::from_line(runner, line), expected, "{line}");
    }

    #[test]
    fn reads_the_standard_harness() {
        let line = "test result: ok. 12 passed; 0 failed; 3 ignored; 0 measured; 40 filtered out; finished in 0.01s";
        check(Runner::Harness, line, [12, 0, 3]);
        let line = "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured";
        check(Runner::Harness, line, [1, 2, 0]);
    }

    #[test]
    fn reads_nextest() {
        let line = "     Summary [   0.005s] 12 tests run: 12 passed, 3 skipped";
        check(Runner::Nextest, line, [12, 0, 3]);
        let line = "Summary [ 0.1s] 1 test run: 1 passed (1 slow), 0 skipped";
        check(Runner::Nextest, line, [1, 0, 0]);
        let line = "Summary [ 9.1s] 9 tests run: 4 passed, 2 failed, 2 timed out, 1 exec failed, 1 skipped";
        check(Runner::Nextest, line, [4, 5, 1]);
    }

    #[test]
    fn reads_both_reporters_of_node() {
        for mark in ["ℹ", "#"] {
            check(Runner::Node, &format!("{mark} tests 17"), [0, 0, 0]);
            check(Runner::Node, &format!("{mark} suites 2"), [0, 0, 0]);
            check(Runner::Node, &format!("{mark} pass 12"), [12, 0, 0]);
            check(Runner::Node, &format!("{mark} fail 2"), [0, 2, 0]);
            check(Runner::Node, &format!("{mark} cancelled 1"), [0, 1, 0]);
            check(Runner::Node, &format!("{mark} skipped 3"), [0, 0, 3]);
            check(Runner::Node, &format!("{mark} todo 1"), [0, 0, 1]);
            check(Runner::Node, &format!("{mark} duration_ms 87.496101"), [0, 0, 0]);
        }
        check(Runner::Node, "\u{1b}[34mℹ pass 12\u{1b}[39m", [12, 0, 0]);
        check(Runner::Node, "✔ a page of 12 messages (1.13ms)", [0, 0, 0]);
        check(Runner::Node, "# pass 12 of them on", [0, 0, 0]);
    }

    /// Node counts a file that declares no test as one that passed.
    #[test]
    fn a_file_of_node_without_tests_is_a_failure() {
        check(Runner::Node, "✔ /x/dashboard/tests/size.test.js (82.3ms)", [0, 1, 0]);
        check(Runner::Node, "✔ flows.test.mjs (51.7ms)", [0, 1, 0]);
        check(Runner::Node, "✔ reads flows.test.mjs whole (51.7ms)", [0, 0, 0]);
    }

    #[test]
    fn reads_schemathesis() {
        check(Runner::Schemathesis, "  34 generated, 34 passed", [34, 0, 0]);
        check(Runner::Schemathesis, "  34 generated, 34 passed, 8 skipped", [26, 0, 0]);
        let line = "  90 generated, 2 found 1 unique failure, 3 errored, 7 skipped";
        check(Runner::Schemathesis, line, [78, 5, 0]);
        check(Runner::Schemathesis, "  9 generated, 9 skipped", [0, 0, 0]);
        check(Runner::Schemathesis, "  No test cases were generated", [0, 0, 0]);
        check(Runner::Schemathesis, "     1 skipped", [0, 0, 0]);
    }

    /// Held: a failure shown twice by nextest was counted three times.
    #[test]
    fn output_of_a_failing_test_under_nextest_is_not_counted() {
        let line = "    test result: FAILED. 0 passed; 1 failed; 0 ignored";
        check(Runner::Nextest, line, [0, 0, 0]);
    }

    #[test]
    fn reads_through_colour() {
        let line = "\u{1b}[32;1m     Summary\u{1b}[0m [   0.005s] 2 tests run: \u{1b}[1m2\u{1b}[0m passed, 0 skipped";
        check(Runner::Nextest, line, [2, 0, 0]);
    }

    #[test]
    fn other_lines_count_for_nothing() {
        for runner in [Runner::Harness, Runner::Nextest, Runner::Node, Runner::Schemathesis] {
            check(runner, "test schedule::cron::reads_names ... ok", [0, 0, 0]);
            check(runner, "12 passed, 0 failed", [0, 0, 0]);
            check(runner, "", [0, 0, 0]);
        }
    }
}
