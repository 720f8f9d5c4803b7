//! Tools of the project, run as `cargo xtask <command>`.
//!
//! This file only parses the command line. There is one file per command, and files for the parts they share
//! (`step` runs and reports, `cargo` starts cargo, `tidy` contains the rules). Nothing here is shipped, and nothing
//! depends on internals of Punctual.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool of the terminal talks to the terminal"
)]

mod adr;
mod bench;
mod browser;
mod build;
mod cargo;
mod chaos;
mod check;
mod contract;
mod cron_oracle;
mod deny;
mod generate;
mod interpreters;
mod junit;
mod load;
mod local_servers;
mod needs;
mod program;
mod public_api;
mod repeat;
mod requirements;
mod simulate;
mod soak;
mod step;
mod stopwatch;
mod tally;
mod test;
mod tidy;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::step::Steps;
use crate::workspace::Workspace;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Tools of the Punctual workspace.")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run everything but tests: tidy, dependency rules, requirements, format, clippy, rustdoc, public API, cargo-deny.
    Check,
    /// Run only the rules that need no compiler.
    Tidy,
    /// List the numbered requirements with the files whose tests name them.
    Requirements,
    /// Install missing programs, then run every test.
    Test(test::Options),
    /// Run `check`, then `test`.
    Ci(test::Options),
    /// Run the simulation over many seeds, or replay one.
    Simulate(simulate::Options),
    /// Compare the API of the built program with its OpenAPI document, by a validator and schemathesis.
    Contract,
    /// Kill workers of real storages repeatedly, and account for every message.
    Chaos(chaos::Options),
    /// Restart a broker under load repeatedly, and account for every message.
    Soak(soak::Options),
    /// Run the benchmarks in a release build; the arguments are passed to the crate `punctual-bench`.
    Bench(bench::Options),
    /// Start, stop and list local servers for the tests.
    Servers {
        #[command(subcommand)]
        action: local_servers::Action,
    },
    /// Write the generated documents.
    Generate(generate::Options),
    /// Record the public items of the libraries.
    PublicApi,
    /// Create architecture decision records.
    Adr {
        #[command(subcommand)]
        action: adr::Action,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether everything passed; an error means that a tool could not run.
fn run(command: Command) -> anyhow::Result<bool> {
    let workspace = Workspace::find()?;
    let mut steps = Steps::default();
    match command {
        Command::Check => check::run(&workspace, &mut steps),
        Command::Tidy => check::tidy(&workspace, &mut steps),
        Command::Requirements => {
            steps.run("requirements", || requirements::print(&workspace));
        }
        Command::Test(options) => test::run(&workspace, &options, &mut steps)?,
        Command::Ci(options) => {
            check::run(&workspace, &mut steps);
            if steps.all_passed() {
                test::run(&workspace, &options, &mut steps)?;
            } else {
                println!("\nThe tests were not run: the cheap checks failed first.");
            }
        }
        Command::Simulate(options) => simulate::run(&workspace, &options, &mut steps),
        Command::Contract => {
            steps.run(contract::STEP, || contract::run(&workspace, &program::build(&workspace)?));
        }
        Command::Chaos(options) => chaos::run(&workspace, &options, &mut steps),
        Command::Soak(options) => soak::run(&workspace, &options, &mut steps),
        Command::Generate(options) => generate::run(&workspace, &options, &mut steps),
        Command::PublicApi => public_api::record(&workspace, &mut steps),
        Command::Bench(options) => return bench::run(&workspace, &options),
        Command::Servers { action } => {
            local_servers::run(&workspace, &action)?;
            return Ok(true);
        }
        Command::Adr { action } => {
            adr::run(&workspace, &action)?;
            return Ok(true);
        }
    }
    Ok(steps.conclude())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn one_seed_and_many_seeds_exclude_each_other() {
        let line = ["xtask", "simulate", "--seed", "7", "--seeds", "10"];
        assert!(Arguments::try_parse_from(line).is_err());
    }
}
