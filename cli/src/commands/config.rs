//! `punctual config`: check a configuration, show the one in force, print one to start from. Exit code 2
//! when it is wrong.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use punctual::clock::{Clock as _, SystemClock};
use punctual_server::config::{ConfigProblems, EXAMPLE, Loaded, Sources};

use crate::terminal::{complain, tell};

/// What to do with a configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Say everything that is wrong with a configuration or probably not meant, each with its file, line and key.
    Check(ConfigArgs),
    /// Print the configuration in force, environment included, without secrets.
    Show(ConfigArgs),
    /// Print a complete configuration with a comment on everything.
    Example,
}

/// Which configuration.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// The file; `punctual.toml` when it is there.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The same as a flag, as `serve` takes it.
    #[arg(long = "config", value_name = "FILE", conflicts_with = "file")]
    config: Option<PathBuf>,
}

/// Runs one of them.
pub(crate) fn run(command: &ConfigCommand) -> ExitCode {
    match command {
        ConfigCommand::Example => print(EXAMPLE),
        ConfigCommand::Check(args) => match load(args) {
            Ok(loaded) => {
                for warning in loaded.warnings(SystemClock.now()) {
                    tell(&format!("warning: {warning}"));
                }
                let from =
                    loaded.file.map_or("no file".to_owned(), |file| file.display().to_string());
                let jobs = loaded.config.jobs.len();
                print(&format!("{from} and the environment are right; jobs: {jobs}\n"))
            }
            Err(problems) => wrong(&problems),
        },
        ConfigCommand::Show(args) => match load(args) {
            Ok(loaded) => match loaded.config.show() {
                Ok(text) => print(&text),
                Err(error) => {
                    complain(&error.into());
                    ExitCode::FAILURE
                }
            },
            Err(problems) => wrong(&problems),
        },
    }
}

fn load(args: &ConfigArgs) -> Result<Loaded, ConfigProblems> {
    Sources::of_process(args.file.clone().or_else(|| args.config.clone())).load()
}

/// Says everything that is wrong.
pub(super) fn wrong(problems: &ConfigProblems) -> ExitCode {
    for problem in &problems.0 {
        tell(&format!("error: {problem}"));
    }
    ExitCode::from(2)
}

fn print(text: &str) -> ExitCode {
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads it has had enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error.into());
            ExitCode::FAILURE
        }
    }
}
