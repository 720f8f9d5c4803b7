//! `cargo xtask bench`: hands its arguments to the `punctual-bench` crate, built for release.

use anyhow::{Context, Result, bail};

use crate::cargo::cargo;
use crate::workspace::Workspace;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// What to measure and how, as the bench crate understands it.
    #[arg(default_value = "core", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<bool> {
    if !workspace.has("bench/Cargo.toml") {
        bail!("there is no bench/ crate in this workspace yet");
    }
    let status = cargo(workspace, &["run", "--release", "-p", "punctual-bench", "--"])
        .args(&options.arguments)
        .status()
        .context("start the benchmark")?;
    Ok(status.success())
}
