//! `cargo xtask chaos`: the kill loop over real storages, in a release build.
//!
//! PostgreSQL is a private one that waits for the disk as in production, unless the environment names
//! another; what the loop does is the business of the `punctual-chaos` crate.

use anyhow::{Result, bail};
use xtask::servers::Durability;

use crate::cargo::{cargo, pass_or_fail};
use crate::local_servers::{self, Servers};
use crate::step::Steps;
use crate::tally::Tally;
use crate::workspace::Workspace;

const CRATE: &str = "chaos/Cargo.toml";
const POSTGRES: &str = "postgres";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many workers are killed, for each storage.
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
    /// As many kills as a change must survive, on every storage but these.
    pub(crate) fn of_test(without: &[String]) -> Self {
        let alone = without.iter().any(|name| name == POSTGRES).then(|| "sqlite".to_owned());
        Self { kills: 50, storage: alone, seed: None }
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

pub(crate) fn run(workspace: &Workspace, options: &Options, steps: &mut Steps) {
    steps.run("kill loop", || kill_loop(workspace, options));
}

fn kill_loop(workspace: &Workspace, options: &Options) -> Result<Tally> {
    if !workspace.has(CRATE) {
        bail!("there is no chaos/ crate in this workspace");
    }
    let mut servers = Servers::default();
    if options.storage.as_deref().is_none_or(|name| name == POSTGRES) {
        let mut wanted = local_servers::wanted(workspace, &[]);
        wanted.retain(|server| server.name() == POSTGRES);
        local_servers::sweep(workspace)?;
        local_servers::provide(&wanted)?;
        servers = Servers::start(workspace, &wanted, Durability::Durable)?;
    }
    let mut command = cargo(workspace, &["run", "--release", "-p", "punctual-chaos", "--", "run"]);
    command.args(options.arguments());
    servers.tell(&mut command);
    pass_or_fail(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_is_passed_on() {
        let options = Options { kills: 9, storage: Some("sqlite".to_owned()), seed: Some(4) };
        let expected = ["--kills", "9", "--storage", "sqlite", "--seed", "4"];
        assert_eq!(options.arguments(), expected);
    }

    #[test]
    fn a_test_without_postgres_still_kills_on_sqlite() {
        assert_eq!(Options::of_test(&[]).storage, None);
        let without = Options::of_test(&["postgres".to_owned()]);
        assert_eq!(without.storage.as_deref(), Some("sqlite"));
        assert_eq!(without.kills, 50);
    }
}
