//! `punctual completions` and `punctual man`: generated from the argument definitions.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::error::report;
use crate::terminal::notice;

/// Arguments of `punctual completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Shell of the script.
    #[arg(value_enum)]
    shell: Shell,
}

/// Arguments of `punctual man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Folder for one page per command; default: print the first page.
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// Prints the completions of a shell.
pub(crate) fn run_completions(arguments: &CompletionsArgs) -> ExitCode {
    let mut command = crate::args::Args::command();
    // Written into memory first, because clap panics on a closed pipe.
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "punctual", &mut text);
    finish(io::Write::write_all(&mut io::stdout(), &text).map_err(Into::into))
}

/// Prints or writes the manual.
pub(crate) fn run_man(arguments: &ManArgs) -> ExitCode {
    let command = crate::args::Args::command();
    finish(match &arguments.folder {
        None => Man::new(command).render(&mut io::stdout()).map_err(Into::into),
        Some(folder) => write_manual(command, folder),
    })
}

fn write_manual(mut command: clap::Command, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    command.build();
    let count = write_pages(&command, "punctual", folder)?;
    notice(&format!("Wrote {count} pages to {}.", folder.display()));
    Ok(())
}

/// Writes the pages of a command and its subcommands; returns their number.
fn write_pages(command: &clap::Command, name: &str, folder: &Path) -> Result<usize> {
    let path = folder.join(format!("{name}.1"));
    let mut text = Vec::new();
    Man::new(command.clone()).render(&mut text)?;
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    let mut count = 1;
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        count += write_pages(inner, &format!("{name}-{}", inner.get_name()), folder)?;
    }
    Ok(count)
}

fn finish(done: Result<()>) -> ExitCode {
    done.map_or_else(|error| report(&error), |()| ExitCode::SUCCESS)
}
