//! The project's own tools, run as `cargo xtask <command>`.
//!
//! This file only reads the command line and hands over: one file per command, and below them the
//! pieces they share (`step` runs and reports, `cargo` starts the build tool, `tidy` holds the rules).
//! Nothing here is shipped, and nothing here knows how Punctual works inside.

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
#[command(name = "cargo xtask", about = "The tools of the Punctual workspace.")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Everything that needs no test run: tidy, requirements, format, clippy, rustdoc, public API, dependency rules,
    /// cargo-deny.
    Check,
    /// The rules that need no compiler, alone.
    Tidy,
    /// List the numbered requirements with the files whose tests name them.
    Requirements,
    /// Install what is missing, then run every test this workspace promises.
    Test(test::Options),
    /// `check`, then `test`.
    Ci(test::Options),
    /// Run the simulation over many seeds, or replay one.
    Simulate(simulate::Options),
    /// Hold the API of the built program to its description, with a validator and schemathesis.
    Contract,
    /// Kill workers of real storages again and again, and account for every message.
    Chaos(chaos::Options),
    /// Restart a broker under load again and again, and account for every message.
    Soak(soak::Options),
    /// Measure, in a release build; the arguments go to the `punctual-bench` crate.
    Bench(bench::Options),
    /// The local servers that the tests of the present crates need.
    Servers {
        #[command(subcommand)]
        action: local_servers::Action,
    },
    /// Rewrite the generated documents.
    Generate(generate::Options),
    /// Record the public items of the libraries.
    PublicApi,
    /// Architecture decision records.
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

/// Returns whether everything passed; an error is a tool that could not do its work.
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
