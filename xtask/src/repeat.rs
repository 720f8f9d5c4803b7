//! `cargo xtask test --repeat N`: runs the same tests repeatedly, to find those that fail sometimes.
//!
//! No failed test is retried to make it pass: each one is listed with the number of its failures. The
//! command needs nextest, whose report names the failed tests.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use crate::cargo::{Empty, count_tests_by};
use crate::junit;
use crate::load::Load;
use crate::step::Steps;
use crate::tally::{Runner, Tally};
use crate::test::Tests;

#[derive(clap::Args)]
#[group(skip)] // its name would be taken: it is a part of the options of the test command
pub(crate) struct Options {
    /// Run only the tests, N times, and count the failures of each.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    repeat: Option<u32>,
    /// Keep every core busy during the runs.
    #[arg(long, requires = "repeat")]
    under_load: bool,
    /// Filter expression of nextest, such as `package(punctual-nats)`.
    #[arg(long, value_name = "FILTER", requires = "repeat")]
    only: Option<String>,
}

impl Options {
    /// Number of runs of the tests, when they are repeated.
    pub(crate) fn count(&self) -> Option<u32> {
        self.repeat
    }

    fn arguments(&self) -> Vec<&str> {
        self.only.as_deref().map(|filter| vec!["-E", filter]).unwrap_or_default()
    }
}

/// Number of failures of each test, by binary and name.
#[derive(Default)]
struct Failures(BTreeMap<(String, String), u32>);

impl Failures {
    fn add(&mut self, tests: Vec<junit::TestTime>) {
        for test in tests.into_iter().filter(|test| test.failed) {
            *self.0.entry((test.binary, test.name)).or_default() += 1;
        }
    }

    fn table(&self, count: u32) -> String {
        let line = |((binary, name), failed): (&(String, String), &u32)| {
            format!("failed {failed} of {count}  {binary} {name}")
        };
        match self.0.len() {
            0 => format!("no test failed in {count} runs"),
            _ => self.0.iter().map(line).collect::<Vec<_>>().join("\n"),
        }
    }
}

pub(crate) fn run(tests: &Tests<'_>, options: &Options, count: u32, steps: &mut Steps) {
    let _load = options.under_load.then(Load::start);
    let mut failures = Failures::default();
    for number in 1..=count {
        steps.run(&format!("run {number} of {count}"), || {
            let tally = run_once(tests, options)?;
            failures.add(junit::read(tests.workspace)?);
            Ok(tally)
        });
    }
    println!("\n{}", failures.table(count));
}

fn run_once(tests: &Tests<'_>, options: &Options) -> Result<Tally> {
    junit::clear(tests.workspace);
    let (runner, command) = tests.command(&options.arguments());
    if runner != Runner::Nextest {
        bail!("--repeat needs cargo-nextest: `cargo install cargo-nextest --locked`");
    }
    count_tests_by(runner, command, Empty::Refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_fails_sometimes_is_listed_with_its_count() {
        let test = |name: &str, failed| junit::TestTime {
            binary: "punctual::it".to_owned(),
            name: name.to_owned(),
            seconds: 1.0,
            failed,
        };
        let mut failures = Failures::default();
        assert_eq!(failures.table(3), "no test failed in 3 runs");
        failures.add(vec![test("steady", false), test("flaky", true)]);
        failures.add(vec![test("steady", false), test("flaky", false)]);
        failures.add(vec![test("steady", false), test("flaky", true)]);
        assert_eq!(failures.table(3), "failed 2 of 3  punctual::it flaky");
    }
}
