//! `cargo xtask test`: everything the README promises, in one command.
//!
//! The servers that back-ends need are installed, started privately, required and stopped again; to
//! leave one out takes `--without`, so that a run never shows less than it seems to.
//!
//! The pure parts and the simulation run in a release build as well: the compiler this workspace
//! starts from miscompiles `bool as usize` after a comparison at the higher optimisation levels, so
//! what holds in a debug build is not yet shown for users.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};
use xtask::servers::{Durability, LEFT_OUT, Server};

use crate::browser;
use crate::cargo::{Empty, cargo, count_tests, count_tests_by, has_subcommand, pass_or_fail};
use crate::chaos;
use crate::contract;
use crate::local_servers::{self, Servers};
use crate::needs;
use crate::simulate;
use crate::step::Steps;
use crate::tally::{Runner, Tally};
use crate::workspace::Workspace;

/// Seeds simulated by the test command; more by `cargo xtask simulate`.
const SEEDS: u64 = 2_000;
/// The parts without input or output: a package, and a filter of its unit tests.
const PURE: [(&str, &str); 3] =
    [("punctual-schedule", ""), ("punctual", "policy::"), ("punctual", "model::")];
/// Lists which numbered requirements no test names; kept beside the checkout, not in it.
const COVERAGE: &str = "../shared/tools/spec-coverage";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Back-ends that must take part: without their server the run fails instead of ignoring them.
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    with: Vec<String>,
    /// Back-ends whose server is neither installed nor started; their tests are ignored, visibly.
    #[arg(long, value_name = "A,B", value_delimiter = ',', conflicts_with = "with")]
    without: Vec<String>,
    /// Keep what the suites of back-ends showed with the sources, for the generated documents.
    #[arg(long)]
    record: bool,
}

pub(crate) fn run(workspace: &Workspace, options: &Options, steps: &mut Steps) -> Result<()> {
    let mut present = workspace.back_ends();
    present.extend([browser::NAME.to_owned(), contract::NAME.to_owned()]);
    known(&options.with, &present)?;
    known(&options.without, &present)?;
    needs::provide_builds(workspace)?;
    let wanted = local_servers::wanted(workspace, &options.without);
    let servers = start_servers(workspace, options, steps);
    let required = required(&options.with, &wanted);
    let results = workspace.target().join("results");
    steps.run("tests", || {
        let (runner, mut command) = every_test(workspace);
        servers.tell(&mut command);
        let _ = fs::remove_dir_all(&results);
        command.env("PUNCTUAL_RESULTS", &results);
        if !required.is_empty() {
            command.env("PUNCTUAL_REQUIRE", &required);
        }
        if !options.without.is_empty() {
            command.env(LEFT_OUT, options.without.join(","));
        }
        count_tests_by(runner, command, Empty::Refused)
    });
    steps.run("behaviours by transports", || matrix(workspace, &results, options.record));
    steps.run("doc tests", || {
        let line = ["test", "--workspace", "--all-features", "--doc", "--no-fail-fast"];
        count_tests(cargo(workspace, &line), Empty::Allowed)
    });
    for (package, module) in PURE {
        let name = format!("{package} {module}* in release");
        steps.run(&name, || pure_in_release(workspace, package, module));
    }
    if workspace.has("e2e") && !options.without.iter().any(|name| name == browser::NAME) {
        steps.run("the dashboard in a browser", || browser::run(workspace));
    }
    if workspace.has("server") && !options.without.iter().any(|name| name == contract::NAME) {
        steps.run(contract::STEP, || contract::run(workspace));
    }
    simulate::run(workspace, &simulate::Options::first(SEEDS), steps);
    chaos::run(workspace, &chaos::Options::of_test(&options.without), steps);
    if workspace.has(COVERAGE) {
        steps.run("requirements named by tests", || coverage(workspace));
    }
    Ok(())
}

/// Installs and starts what the back-ends need. A server that does not come is a failed step, and its
/// back-end's tests fail too, unless it was left out by name.
fn start_servers(workspace: &Workspace, options: &Options, steps: &mut Steps) -> Servers {
    let wanted = local_servers::wanted(workspace, &options.without);
    let mut servers = Servers::default();
    steps.run("servers", || {
        for name in &options.without {
            println!("    WITHOUT {name}, as asked: its tests are ignored");
        }
        local_servers::sweep(workspace)?;
        local_servers::provide(&wanted)?;
        servers = Servers::start(workspace, &wanted, Durability::Relaxed)?;
        Ok(Tally::default())
    });
    servers
}

/// Every test of the workspace but the doc tests, by nextest where there is one.
fn every_test(workspace: &Workspace) -> (Runner, Command) {
    if has_subcommand(workspace, "nextest") {
        let line = ["nextest", "run", "--workspace", "--all-features", "--tests"];
        return (Runner::Nextest, cargo(workspace, &line));
    }
    println!("    cargo-nextest is not installed; the standard harness runs the same tests");
    let line = ["test", "--workspace", "--all-features", "--tests", "--no-fail-fast"];
    (Runner::Harness, cargo(workspace, &line))
}

fn pure_in_release(workspace: &Workspace, package: &str, module: &str) -> Result<Tally> {
    let line = ["test", "--release", "-p", package, "--lib", "--quiet", "--", module];
    count_tests(cargo(workspace, &line), Empty::Refused)
}

/// Prints what came of the suite of transports: passed, refused as declared, skipped, not tried.
fn matrix(workspace: &Workspace, results: &Path, record: bool) -> Result<Tally> {
    let line = ["run", "--quiet", "-p", "punctual-conformance", "--bin", "matrix", "--"];
    let mut command = cargo(workspace, &line);
    command.arg(results);
    if record {
        command.arg("--record");
    }
    pass_or_fail(command)
}

fn coverage(workspace: &Workspace) -> Result<Tally> {
    let status = Command::new(workspace.path(COVERAGE)).current_dir(workspace.root()).status()?;
    if !status.success() {
        bail!("{COVERAGE} ended with {status}");
    }
    Ok(Tally::default())
}

/// The back-ends asked for and those that have a server, each once.
fn required(asked: &[String], served: &[&dyn Server]) -> String {
    let served = served.iter().map(|server| server.name());
    let mut names: Vec<&str> = asked.iter().map(String::as_str).chain(served).collect();
    names.sort_unstable();
    names.dedup();
    names.join(",")
}

fn known(asked: &[String], present: &[String]) -> Result<()> {
    for name in asked {
        if !present.contains(name) {
            let known = match present {
                [] => "there is none yet".to_owned(),
                _ => format!("there are {}", present.join(", ")),
            };
            bail!("no back-end named `{name}` in storages/ or transports/: {known}");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use xtask::servers::Postgres;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_back_end_that_does_not_exist_is_refused_by_name() {
        let error = known(&names(&["postgres"]), &names(&["sqlite"])).unwrap_err();
        assert!(error.to_string().contains("`postgres`"));
        assert!(error.to_string().contains("there are sqlite"));
    }

    #[test]
    fn what_was_asked_for_and_what_has_a_server_must_take_part() {
        assert_eq!(required(&names(&["sqlite"]), &[&Postgres]), "postgres,sqlite");
        assert_eq!(required(&names(&["postgres"]), &[&Postgres]), "postgres");
        assert_eq!(required(&[], &[]), "");
    }

    #[test]
    fn a_back_end_that_exists_may_be_named() {
        let present = names(&["kafka", "sqlite"]);
        assert!(known(&present, &present).is_ok());
    }
}
