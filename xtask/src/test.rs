//! `cargo xtask test`: everything the README promises, in one command.
//!
//! The pure parts and the simulation run in a release build as well: the compiler this workspace
//! starts from miscompiles `bool as usize` after a comparison at the higher optimisation levels, so
//! what holds in a debug build is not yet shown for users.

use std::process::Command;

use anyhow::{Result, bail};

use crate::cargo::{Empty, cargo, count_tests, count_tests_by, has_subcommand};
use crate::needs;
use crate::simulate;
use crate::step::Steps;
use crate::tally::{Runner, Tally};
use crate::workspace::Workspace;

/// Seeds simulated by the test command; more by `cargo xtask simulate`.
const SEEDS: u64 = 2_000;
/// The modules without input or output, as filters of core's unit tests.
const PURE: [&str; 3] = ["schedule::", "policy::", "model::"];
/// Lists which numbered requirements no test names; kept beside the checkout, not in it.
const COVERAGE: &str = "../shared/tools/spec-coverage";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Back-ends that must take part: without their server the run fails instead of ignoring them.
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    with: Vec<String>,
}

pub(crate) fn run(workspace: &Workspace, options: &Options, steps: &mut Steps) -> Result<()> {
    let required = required(&options.with, &workspace.back_ends())?;
    steps.run("needs", || needs::provide(workspace));
    steps.run("tests", || {
        let (runner, mut command) = every_test(workspace);
        if !required.is_empty() {
            command.env("PUNCTUAL_REQUIRE", &required);
        }
        count_tests_by(runner, command, Empty::Refused)
    });
    steps.run("doc tests", || {
        let line = ["test", "--workspace", "--doc", "--no-fail-fast"];
        count_tests(cargo(workspace, &line), Empty::Allowed)
    });
    for module in PURE {
        steps.run(&format!("{module}* in release"), || pure_in_release(workspace, module));
    }
    simulate::run(workspace, &simulate::Options::first(SEEDS), steps);
    if workspace.has(COVERAGE) {
        steps.run("requirements named by tests", || coverage(workspace));
    }
    Ok(())
}

/// Every test of the workspace but the doc tests, by nextest where there is one.
fn every_test(workspace: &Workspace) -> (Runner, Command) {
    if has_subcommand(workspace, "nextest") {
        let line = ["nextest", "run", "--workspace", "--tests"];
        return (Runner::Nextest, cargo(workspace, &line));
    }
    println!("    cargo-nextest is not installed; the standard harness runs the same tests");
    let line = ["test", "--workspace", "--tests", "--no-fail-fast"];
    (Runner::Harness, cargo(workspace, &line))
}

fn pure_in_release(workspace: &Workspace, module: &str) -> Result<Tally> {
    let line = ["test", "--release", "-p", "punctual", "--lib", "--quiet", "--", module];
    count_tests(cargo(workspace, &line), Empty::Refused)
}

fn coverage(workspace: &Workspace) -> Result<Tally> {
    let status = Command::new(workspace.path(COVERAGE)).current_dir(workspace.root()).status()?;
    if !status.success() {
        bail!("{COVERAGE} ended with {status}");
    }
    Ok(Tally::default())
}

fn required(asked: &[String], present: &[String]) -> Result<String> {
    for name in asked {
        if !present.contains(name) {
            let known = match present {
                [] => "there is none yet".to_owned(),
                _ => format!("there are {}", present.join(", ")),
            };
            bail!("no back-end named `{name}` in storages/ or transports/: {known}");
        }
    }
    Ok(asked.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_back_end_that_does_not_exist_is_refused_by_name() {
        let error = required(&names(&["postgres"]), &names(&["sqlite"])).unwrap_err();
        assert!(error.to_string().contains("`postgres`"));
        assert!(error.to_string().contains("there are sqlite"));
    }

    #[test]
    fn required_back_ends_are_passed_on() {
        let present = names(&["kafka", "sqlite"]);
        assert_eq!(required(&present, &present).unwrap(), "kafka,sqlite");
        assert_eq!(required(&[], &present).unwrap(), "");
    }
}
