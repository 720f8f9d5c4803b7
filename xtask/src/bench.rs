//! `cargo xtask bench`: hands its arguments to the `punctual-bench` crate, built for release.
//!
//! Measurements of storages and transports get private servers that wait for the disk as in production,
//! unless the environment names others.

use anyhow::{Context, Result, bail};
use xtask::servers::Durability;

use crate::cargo::cargo;
use crate::local_servers::{self, Servers};
use crate::workspace::Workspace;

/// The suites that need servers.
const WITH_SERVERS: [&str; 3] = ["storage", "jobs", "transport"];

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
    let mut servers = Servers::default();
    if options.arguments.first().is_some_and(|suite| WITH_SERVERS.contains(&suite.as_str())) {
        let wanted = local_servers::wanted(workspace, &[]);
        local_servers::sweep(workspace)?;
        local_servers::provide(&wanted)?;
        servers = Servers::start(workspace, &wanted, Durability::Durable)?;
    }
    let mut command = cargo(workspace, &["run", "--release", "-p", "punctual-bench", "--"]);
    command.args(&options.arguments);
    servers.tell(&mut command);
    let status = command.status().context("start the benchmark")?;
    Ok(status.success())
}
