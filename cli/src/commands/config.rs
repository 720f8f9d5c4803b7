//! `punctual config`: checks and prints configurations. Exit code 2 when one is invalid.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use punctual::clock::{Clock as _, SystemClock};
use punctual_server::config::{ConfigErrors, EXAMPLE, LoadedConfig, Sources};

use crate::terminal::{notice, print_error};

/// Commands about configurations.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print the errors and warnings of a configuration, each with its file, line and key.
    Check(ConfigArgs),
    /// Print the effective configuration with the environment and without secrets.
    Show(ConfigArgs),
    /// Print an example configuration with comments.
    Example,
}

/// Path of a configuration.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// Configuration file; `punctual.toml` when it exists.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Configuration file, as a flag like that of `serve`.
    #[arg(long = "config", value_name = "FILE", conflicts_with = "file")]
    config: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(command: &ConfigCommand) -> ExitCode {
    match command {
        ConfigCommand::Example => print(EXAMPLE),
        ConfigCommand::Check(args) => match load(args) {
            Ok(loaded) => {
                for warning in loaded.warnings(SystemClock.now()) {
                    notice(&format!("warning: {warning}"));
                }
                let from = loaded
                    .file
                    .map_or("the environment".to_owned(), |file| file.display().to_string());
                let jobs = loaded.config.jobs.len();
                print(&format!("{from} is valid; jobs: {jobs}\n"))
            }
            Err(problems) => invalid_config(&problems),
        },
        ConfigCommand::Show(args) => match load(args) {
            Ok(loaded) => match loaded.config.show() {
                Ok(text) => print(&text),
                Err(error) => {
                    print_error(&error.into());
                    ExitCode::FAILURE
                }
            },
            Err(problems) => invalid_config(&problems),
        },
    }
}

fn load(args: &ConfigArgs) -> Result<LoadedConfig, ConfigErrors> {
    Sources::of_process(args.file.clone().or_else(|| args.config.clone())).load()
}

/// Prints the problems of a configuration and returns the exit code.
pub(super) fn invalid_config(problems: &ConfigErrors) -> ExitCode {
    for problem in &problems.0 {
        notice(&format!("error: {problem}"));
    }
    ExitCode::from(2)
}

fn print(text: &str) -> ExitCode {
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the pipe has closed it.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            print_error(&error.into());
            ExitCode::FAILURE
        }
    }
}
