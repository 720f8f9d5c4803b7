//! Cron oracle: runs the comparison of the cron search with its oracle over more cases than the tests.
//!
//! The comparison itself is a test of `schedule/`, which runs with all others over a few hundred cases;
//! this only sets their number.

use std::process::Command;

use crate::build::BuildOutput;
use crate::cargo::{Empty, count_tests};
use crate::step::Steps;

const TEST: &str = "cron::tests::oracle::agrees_with_the_oracle_in_bulk";

/// Runs the built test binary of the schedules.
pub(crate) fn run_built(built: &BuildOutput, cases: u32, steps: &mut Steps) {
    steps.run(&format!("cron search and its oracle, {cases} cases"), || {
        let mut command = Command::new(built.test("punctual-schedule", "punctual_schedule")?);
        command.args([TEST, "--exact"]).env("PUNCTUAL_CRON_CASES", cases.to_string());
        count_tests(command, Empty::Refused)
    });
}
