//! `cargo xtask chaos`: the kill loop over real storages.
//!
//! The command runs it in a release build, the test command in its own build. PostgreSQL is a private server that
//! flushes to disk as in production, unless the environment names another. The loop is in the crate `punctual-chaos`.

use std::process::Command;

use anyhow::Result;
use xtask::servers::Durability;

use crate::build::BuildOutput;
use crate::cargo::{cargo, pass_or_fail};
use crate::local_servers::{self, Servers};
use crate::step::{Phase, Steps};
use crate::tally::Tally;
use crate::workspace::Workspace;

const POSTGRES: &str = "postgres";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Kill servers under keyed requests instead, and crash their PostgreSQL.
    #[arg(long)]
    keyed: bool,
    /// Number of workers to kill, for each storage.
    #[arg(long, default_value_t = 50, value_name = "N")]
    kills: usize,
    /// Only this storage: `sqlite` or `postgres`.
    #[arg(long, value_name = "NAME")]
    storage: Option<String>,
    /// Repeat the choices of an earlier run.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

impl Options {
    /// Returns options for this number of kills on every storage except these.
    pub(crate) fn of_test(kills: usize, without: &[String]) -> Self {
        let alone = without.iter().any(|name| name == POSTGRES).then(|| "sqlite".to_owned());
        Self { keyed: false, kills, storage: alone, seed: None }
    }

    /// Returns options for this number of kills of servers under keyed requests on every storage except these.
    pub(crate) fn keyed_of_test(kills: usize, without: &[String]) -> Self {
        Self { keyed: true, ..Self::of_test(kills, without) }
    }

    pub(crate) fn title(&self) -> String {
        if self.keyed {
            return format!("kill loop of keyed requests, {} kills for each storage", self.kills);
        }
        format!("kill loop, {} kills for each storage", self.kills)
    }

    fn arguments(&self) -> Vec<String> {
        let mut line = vec!["--kills".to_owned(), self.kills.to_string()];
        if let Some(storage) = &self.storage {
            line.extend(["--storage".to_owned(), storage.clone()]);
        }
        if let Some(seed) = self.seed {
            line.extend(["--seed".to_owned(), seed.to_string()]);
        }
        line
    }
}

/// Builds for release and runs.
pub(crate) fn run(workspace: &Workspace, options: &Options, steps: &mut Steps) {
    let command = cargo(workspace, &["run", "--release", "-p", "punctual-chaos", "--"]);
    steps.run_as(Phase::CompileAndRun, &options.title(), || kill_loop(workspace, options, command));
}

/// Runs the built program.
pub(crate) fn run_built(
    workspace: &Workspace,
    built: &BuildOutput,
    options: &Options,
) -> Result<Tally> {
    kill_loop(workspace, options, Command::new(built.program("punctual-chaos")?))
}

/// Runs the loop with a command.
fn kill_loop(workspace: &Workspace, options: &Options, mut command: Command) -> Result<Tally> {
    let mut servers = Servers::default();
    if options.keyed {
        // It starts a database of its own, which it crashes.
        command.arg("keyed").args(options.arguments());
        return pass_or_fail(command);
    }
    if options.storage.as_deref().is_none_or(|name| name == POSTGRES) {
        let mut wanted = local_servers::wanted(workspace, &[]);
        wanted.retain(|server| server.name() == POSTGRES);
        local_servers::sweep(workspace)?;
        local_servers::provide(&wanted)?;
        servers = Servers::start(workspace, &wanted, Durability::Durable)?;
    }
    command.arg("run").args(options.arguments());
    servers.add_variables(&mut command);
    pass_or_fail(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_passed_on() {
        let options =
            Options { keyed: false, kills: 9, storage: Some("sqlite".to_owned()), seed: Some(4) };
        let expected = ["--kills", "9", "--storage", "sqlite", "--seed", "4"];
        assert_eq!(options.arguments(), expected);
    }

    #[test]
    fn a_test_without_postgres_still_kills_on_sqlite() {
        assert_eq!(Options::of_test(9, &[]).storage, None);
        let without = Options::of_test(9, &["postgres".to_owned()]);
        assert_eq!(without.storage.as_deref(), Some("sqlite"));
        assert_eq!((without.kills, without.keyed), (9, false));
        assert!(Options::keyed_of_test(9, &[]).keyed);
    }
}
