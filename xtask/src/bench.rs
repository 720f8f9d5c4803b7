//! `cargo xtask bench`: hands its arguments to the `punctual-bench` crate, built for release.
//!
//! Measurements of storages and transports get private servers that wait for the disk as in production,
//! unless the environment names others.

use anyhow::{Context, Result, bail};
use xtask::servers::Durability;

use crate::cargo::cargo;
use crate::local_servers::{self, Servers};
use crate::needs;
use crate::workspace::Workspace;

/// The suites that need servers.
const WITH_SERVERS: [&str; 3] = ["storage", "jobs", "transport"];
/// The back-ends that the bench crate builds only when asked, because they take long.
const HEAVY: [&str; 3] = ["kafka", "servicebus", "sqs"];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Back-ends whose server is neither installed nor started, and which are not built where they are
    /// heavy; the measurement says so.
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    without: Vec<String>,
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
        let wanted = local_servers::wanted(workspace, &options.without);
        local_servers::sweep(workspace)?;
        local_servers::provide(&wanted)?;
        servers = Servers::start(workspace, &wanted, Durability::Durable)?;
    }
    let features = features(options);
    if features.contains(&"kafka") {
        needs::provide_builds(workspace)?;
    }
    let mut command = cargo(workspace, &["run", "--release", "-p", "punctual-bench"]);
    command.args(["--features", &features.join(","), "--"]).args(&options.arguments);
    servers.tell(&mut command);
    let status = command.status().context("start the benchmark")?;
    Ok(status.success())
}

/// What has to be built for a suite: only the transports need the heavy back-ends, and one that was named
/// by `--only` needs no other.
fn features(options: &Options) -> Vec<&'static str> {
    let mut arguments = options.arguments.iter();
    if arguments.next().is_none_or(|suite| suite != "transport") {
        return Vec::new();
    }
    let only = arguments.skip_while(|argument| *argument != "--only").nth(1);
    let is_wanted = |name: &&str| {
        only.is_none_or(|only| only == *name) && !options.without.iter().any(|other| other == *name)
    };
    HEAVY.into_iter().filter(is_wanted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(arguments: &[&str], without: &[&str]) -> Vec<&'static str> {
        let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        features(&Options { arguments: owned(arguments), without: owned(without) })
    }

    #[test]
    fn heavy_back_ends_are_built_for_transports_alone_and_can_be_left_out() {
        assert!(built(&["core"], &[]).is_empty());
        assert_eq!(built(&["transport"], &[]), HEAVY);
        assert_eq!(built(&["transport", "--json"], &["sqs"]), ["kafka", "servicebus"]);
        assert_eq!(built(&["transport", "--only", "sqs"], &[]), ["sqs"]);
        assert!(built(&["transport", "--only", "memory"], &[]).is_empty());
    }
}
