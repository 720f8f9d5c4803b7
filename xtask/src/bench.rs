//! `cargo xtask bench`: passes its arguments to the crate `punctual-bench`, built for release.
//!
//! Benchmarks of storages, transports and the server get private servers that flush to disk as in
//! production, unless the environment names others. Those of the server also get the program as it is shipped.

use std::process::Command;

use anyhow::{Context, Result, bail};
use xtask::servers::Durability;

use crate::cargo::cargo;
use crate::local_servers::{self, Servers};
use crate::needs;
use crate::workspace::Workspace;

/// The suites that need servers.
const WITH_SERVERS: [&str; 4] = ["storage", "jobs", "transport", "server"];
/// The suite that measures the program itself, which is built as it is shipped.
const SERVER: &str = "server";
const SHIPPED: &str = "dist";
/// The back-ends that the bench crate builds only on request, because they take long.
const HEAVY: [&str; 3] = ["kafka", "servicebus", "sqs"];
/// Features of a release that the default build leaves out.
const OPTIONAL: [&str; 5] = ["mqtt", "nats", "rabbitmq", "redis", "otlp"];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Back-ends whose server is neither installed nor started, and heavy ones of
    /// which are not built; the report lists them.
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    without: Vec<String>,
    /// Arguments of the `punctual-bench` program.
    #[arg(default_value = "core", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<bool> {
    if !workspace.has("testing/bench/Cargo.toml") {
        bail!("there is no testing/bench/ crate in this workspace yet");
    }
    let mut servers = Servers::default();
    if options.arguments.first().is_some_and(|suite| WITH_SERVERS.contains(&suite.as_str())) {
        let mut wanted = local_servers::wanted(workspace, &options.without);
        // The server is measured on the storages alone.
        wanted.retain(|server| !options.is_of_server() || server.name() == "postgres");
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
    servers.add_variables(&mut command);
    if options.is_of_server() {
        shipped(workspace, options, &mut command)?;
    }
    let status = command.status().context("start the benchmark")?;
    Ok(status.success())
}

impl Options {
    fn is_of_server(&self) -> bool {
        self.arguments.first().is_some_and(|suite| suite == SERVER)
    }
}

/// Builds the program as it is shipped, with every back-end that is not left out, and returns its path.
fn shipped(workspace: &Workspace, options: &Options, bench: &mut Command) -> Result<()> {
    let is_wanted = |name: &&str| !options.without.iter().any(|other| other == *name);
    let features = HEAVY.into_iter().chain(OPTIONAL).filter(is_wanted);
    let features: Vec<&str> = features.collect();
    if features.contains(&"kafka") {
        needs::provide_builds(workspace)?;
    }
    let features = features.join(",");
    let mut build = cargo(workspace, &["build", "--profile", SHIPPED, "-p", "punctual-cli"]);
    let status = build.args(["--features", &features]).status().context("build the program")?;
    if !status.success() {
        bail!("the program cannot be built");
    }
    let folder = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| workspace.root().join("target"), std::path::PathBuf::from);
    bench.env("PUNCTUAL_BINARY", folder.join(SHIPPED).join("punctual"));
    bench.env("PUNCTUAL_BINARY_FEATURES", features);
    Ok(())
}

/// Returns the features that a suite needs: only the transports need the heavy back-ends, and one that was named
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
