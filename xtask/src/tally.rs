//! How many tests ran, read from what the test runners print.
//!
//! Both runners are understood: the standard harness (`test result: ok. 3 passed; ...`) and nextest
//! (`Summary [0.1s] 3 tests run: 3 passed, 1 skipped`). Which of them runs has to be said: nextest
//! repeats the harness's lines when it shows a failure, and they would be counted again. The exit
//! status of a runner is not judged here; see `cargo.rs`.

use std::ops::AddAssign;

/// Who runs the tests and prints the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runner {
    Harness,
    Nextest,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
}

impl Tally {
    /// A step that is no test run: it passed as a whole.
    pub(crate) const ONE_PASSED: Self = Self { passed: 1, failed: 0, ignored: 0 };

    /// A step that is no test run, or a test run that broke before it counted: it failed as a whole.
    pub(crate) const ONE_FAILED: Self = Self { passed: 0, failed: 1, ignored: 0 };

    pub(crate) fn ran(self) -> u64 {
        self.passed + self.failed
    }

    /// What one line of a runner's output adds.
    pub(crate) fn from_line(runner: Runner, line: &str) -> Self {
        let plain = without_colour(line);
        let plain = plain.trim();
        let counts = match runner {
            Runner::Harness => plain.strip_prefix("test result: "),
            Runner::Nextest => plain
                .strip_prefix("Summary [")
                .and_then(|rest| rest.split_once("run: "))
                .map(|(_, counts)| counts),
        };
        Self::from_counts(counts.unwrap_or_default().split(['.', ';', ',']))
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

    /// Held: a failure shown twice by nextest was counted three times.
    #[test]
    fn what_a_failing_test_printed_under_nextest_is_not_counted() {
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
        for runner in [Runner::Harness, Runner::Nextest] {
            check(runner, "test schedule::cron::reads_names ... ok", [0, 0, 0]);
            check(runner, "12 passed, 0 failed", [0, 0, 0]);
            check(runner, "", [0, 0, 0]);
        }
    }
}
