//! `cargo xtask test`: all tests in one command.
//!
//! Everything is built once and then run from that build. The servers that back-ends need are
//! installed, started privately, required and stopped again; only `--without` omits one, so
//! that no test is skipped silently. `docs/ci.md` describes the two depths.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow, bail};
use xtask::servers::{Durability, LEFT_OUT, Server};

use crate::browser;
use crate::build::{BuildOutput, EVERYTHING};
use crate::cargo::{Empty, cargo, count_tests, count_tests_by, has_subcommand, pass_or_fail};
use crate::chaos;
use crate::contract;
use crate::cron_oracle;
use crate::deny::{self, Deny};
use crate::interpreters::{self, INTERPRETERS, Interpreter};
use crate::junit;
use crate::local_servers::{self, Servers};
use crate::needs;
use crate::repeat;
use crate::simulate;
use crate::soak;
use crate::step::{Phase, Steps};
use crate::tally::{Runner, Tally};
use crate::workspace::Workspace;

/// Brokers whose servers can be restarted with their data.
const SOAKED: [&str; 4] = ["redis", "nats", "mqtt", "rabbitmq"];
/// Tests that wait at the same time on one core; `.config/nextest.toml` lists the tests that take all of them.
const PLACES: usize = 8;
/// Number of the slowest tests that are listed.
const SLOWEST: usize = 10;
/// Cases of the cron search that the full depth compares with the oracle.
const CRON_CASES: u32 = 20_000;
/// The table of steps for programs, below the target folder.
const REPORT: &str = "test-report.json";

/// Numbers of repetitions of the parts that can be repeated at will.
struct Depth {
    /// Kills of the kill loop, for each storage.
    kills: usize,
    /// Kills of servers under keyed requests, for each storage, besides those of `testing/chaos/tests/repeats.rs`.
    keyed_kills: usize,
    /// Seeds of the simulation.
    seeds: u64,
    /// Messages behind the dashboard in the largest flow of the browser.
    rows: u32,
}

const SHORT: Depth = Depth { kills: 10, keyed_kills: 0, seeds: 2_000, rows: 200_000 };
const FULL: Depth = Depth { kills: 50, keyed_kills: 100, seeds: 100_000, rows: 1_000_000 };

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Required parts: back-ends, without whose server the run fails instead of ignoring them.
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    with: Vec<String>,
    /// Parts that are neither installed nor started: servers of back-ends, `node`, `python`, `browser`,
    /// `contract`, and `advisories` of the full depth. Their tests are ignored, visibly.
    #[arg(long, value_name = "A,B", value_delimiter = ',', conflicts_with = "with")]
    without: Vec<String>,
    /// Record the results of the suites of back-ends for the generated documents.
    #[arg(long)]
    record: bool,
    /// Run larger numbers of kills, seeds, rows and cron cases, soak tests of the brokers, and all tests in a release
    /// build.
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    repeat: repeat::Options,
}

impl Options {
    fn depth(&self) -> Depth {
        if self.full { FULL } else { SHORT }
    }

    fn includes(&self, name: &str) -> bool {
        !self.without.iter().any(|without| without == name)
    }

    fn interpreters(&self) -> Vec<&'static Interpreter> {
        INTERPRETERS.iter().filter(|interpreter| self.includes(interpreter.name)).collect()
    }
}

/// Builds, then runs every test once, or with `--repeat` the same tests repeatedly.
pub(crate) fn run(workspace: &Workspace, options: &Options, steps: &mut Steps) -> Result<()> {
    let mut present = workspace.back_ends();
    present.extend([browser::NAME, contract::NAME, deny::ADVISORIES].map(str::to_owned));
    present.extend(INTERPRETERS.iter().map(|interpreter| interpreter.name.to_owned()));
    known(&options.with, &present)?;
    known(&options.without, &present)?;
    needs::provide_builds(workspace)?;
    let wanted = local_servers::wanted(workspace, &options.without);
    let installing = install_meanwhile(options, wanted.clone());
    let mut built = BuildOutput::default();
    steps.run_as(Phase::Compile, "build", || {
        built = BuildOutput::everything(workspace)?;
        Ok(Tally::ONE_PASSED)
    });
    if !steps.all_passed() {
        println!("\nNothing was run: the build failed.");
        return Ok(());
    }
    let mut servers = Servers::default();
    steps.run_as(Phase::Prepare, "servers", || {
        for name in &options.without {
            println!("    WITHOUT {name}, as asked: its tests are ignored");
        }
        installing.join().map_err(|_| anyhow!("the installation panicked"))??;
        local_servers::sweep(workspace)?;
        servers = Servers::start(workspace, &wanted, Durability::Relaxed)?;
        Ok(Tally::default())
    });
    let interpreters = options.interpreters().into_iter().map(|interpreter| interpreter.name);
    let served = wanted.iter().map(|server| server.name());
    let required = required(&options.with, served.chain(interpreters));
    let tests = Tests { workspace, servers: &servers, required, without: &options.without };
    match options.repeat.count() {
        Some(count) => repeat::run(&tests, &options.repeat, count, steps),
        None => run_once(&tests, options, &built, steps),
    }
    let report = format!("{:#}\n", steps.to_json());
    fs::write(workspace.target().join(REPORT), report).with_context(|| format!("write {REPORT}"))
}

/// Installs missing programs while the workspace is compiled.
fn install_meanwhile(
    options: &Options,
    wanted: Vec<&'static dyn Server>,
) -> JoinHandle<Result<()>> {
    let browser = options.includes(browser::NAME);
    let contract = options.includes(contract::NAME);
    let interpreters = options.interpreters();
    thread::spawn(move || {
        interpreters::provide(&interpreters)?;
        local_servers::provide(&wanted)?;
        if browser {
            browser::provide()?;
        }
        if contract {
            contract::provide()?;
        }
        Ok(())
    })
}

fn run_once(tests: &Tests<'_>, options: &Options, built: &BuildOutput, steps: &mut Steps) {
    let workspace = tests.workspace;
    let depth = options.depth();
    let results = workspace.target().join("results");
    let _ = fs::remove_dir_all(&results);
    junit::clear(workspace);
    steps.run("tests", || {
        let (runner, mut command) = tests.command(&[]);
        command.env("PUNCTUAL_RESULTS", &results);
        count_tests_by(runner, command, Empty::Refused)
    });
    if let Ok(times) = junit::read(workspace) {
        steps.set_slowest(junit::slowest(times, SLOWEST));
    }
    steps.run("behaviours by transports", || matrix(built, &results, options.record));
    steps.run_as(Phase::CompileAndRun, "doc tests", || doc_tests(workspace));
    if options.includes(browser::NAME) {
        steps.run("the dashboard in a browser", || {
            browser::run(workspace, &built.program("punctual")?, depth.rows)
        });
    }
    if options.includes(contract::NAME) {
        steps.run(contract::STEP, || contract::run(workspace, &built.program("punctual")?));
    }
    let seeds = simulate::Options::first(depth.seeds);
    let kills = chaos::Options::of_test(depth.kills, &options.without);
    // The kill loop mostly waits for leases to end.
    steps.run_both(
        (&kills.title(), || chaos::run_built(workspace, built, &kills)),
        (&seeds.title(), || simulate::run_built(built, &seeds)),
    );
    if options.full {
        cron_oracle::run_built(built, CRON_CASES, steps);
        run_full((tests, built), options, steps);
    }
}

/// Runs the steps of the full depth only: every test in a release build, brokers that are restarted under load, and
/// known vulnerabilities of the dependencies.
fn run_full((tests, built): (&Tests<'_>, &BuildOutput), options: &Options, steps: &mut Steps) {
    steps.run_as(Phase::CompileAndRun, "tests in a release build", || {
        let (runner, command) = tests.command(&["--release"]);
        count_tests_by(runner, command, Empty::Refused)
    });
    let kills = chaos::Options::keyed_of_test(options.depth().keyed_kills, &options.without);
    steps.run(&kills.title(), || chaos::run_built(tests.workspace, built, &kills));
    for broker in SOAKED.iter().filter(|broker| options.includes(broker)) {
        soak::run(tests.workspace, &soak::Options::of_test(broker), steps);
    }
    if options.includes(deny::ADVISORIES) {
        steps.run("known vulnerabilities of dependencies", || {
            Deny::provide(tests.workspace).advisories(tests.workspace)
        });
    }
}

/// Runs every test of the workspace but the doc tests, with the servers they need.
pub(crate) struct Tests<'a> {
    pub(crate) workspace: &'a Workspace,
    servers: &'a Servers,
    /// Required parts, separated by commas.
    required: String,
    /// Parts to leave out, separated by commas.
    without: &'a [String],
}

impl Tests<'_> {
    /// Returns the runner, nextest where it is installed, and its command with these arguments.
    pub(crate) fn command(&self, arguments: &[&str]) -> (Runner, Command) {
        let (runner, mut command) = if has_subcommand(self.workspace, "nextest") {
            let mut command = cargo(self.workspace, &["nextest", "run", "--test-threads"]);
            command.arg((PLACES * cores()).to_string());
            (Runner::Nextest, command)
        } else {
            println!(
                "    cargo-nextest is not installed; the standard harness runs the same tests"
            );
            (Runner::Harness, cargo(self.workspace, &["test", "--no-fail-fast"]))
        };
        let arguments = arguments.iter().map(|argument| match (*argument, runner) {
            ("--release", Runner::Nextest) => "--cargo-profile=release",
            (argument, _) => argument,
        });
        command.args(EVERYTHING).arg("--tests").args(arguments);
        self.servers.add_variables(&mut command);
        if !self.required.is_empty() {
            command.env("PUNCTUAL_REQUIRE", &self.required);
        }
        if !self.without.is_empty() {
            command.env(LEFT_OUT, self.without.join(","));
        }
        (runner, command)
    }
}

fn doc_tests(workspace: &Workspace) -> Result<Tally> {
    let mut command = cargo(workspace, &["test", "--doc", "--no-fail-fast"]);
    command.args(EVERYTHING);
    count_tests(command, Empty::Allowed)
}

/// Prints the results of the transport suite: passed, refused as declared, skipped, not run.
fn matrix(built: &BuildOutput, results: &Path, record: bool) -> Result<Tally> {
    let mut command = Command::new(built.program("matrix")?);
    command.arg(results);
    if record {
        command.arg("--record");
    }
    pass_or_fail(command)
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Returns the names that were requested and those that were provided, each once.
fn required<'a>(asked: &'a [String], provided: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = asked.iter().map(String::as_str).chain(provided).collect();
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
            bail!("nothing named `{name}` can take part or be left out: {known}");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn requested_and_provided_names_must_take_part() {
        let provided = || ["postgres", "node"].into_iter();
        assert_eq!(required(&names(&["sqlite"]), provided()), "node,postgres,sqlite");
        assert_eq!(required(&names(&["postgres"]), provided()), "node,postgres");
        assert_eq!(required(&[], [].into_iter()), "");
    }

    #[test]
    fn a_back_end_that_exists_may_be_named() {
        let present = names(&["kafka", "sqlite"]);
        assert!(known(&present, &present).is_ok());
    }
}
