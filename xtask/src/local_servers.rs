//! Local servers: `cargo xtask servers`, and the servers of one run of the tests or of a benchmark.
//!
//! The existing folders of back-ends determine the servers. An address in the environment
//! is used as it is: then nothing is installed, started or stopped for that back-end.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use xtask::servers::{Durability, Owner, Record, Running, SERVERS, Server, detached};

use crate::needs;
use crate::workspace::Workspace;

#[derive(clap::Subcommand)]
pub(crate) enum Action {
    /// Install missing servers, start them, and print the variables to export.
    Up {
        /// Flush to disk as in production, for benchmarks and kill tests.
        #[arg(long)]
        durable: bool,
    },
    /// Stop the servers that `up` started.
    Down,
    /// List the running servers with their addresses and start times.
    Status,
}

pub(crate) fn run(workspace: &Workspace, action: &Action) -> Result<()> {
    let records = records(workspace);
    match action {
        Action::Up { durable } => {
            let durability = if *durable { Durability::Durable } else { Durability::Relaxed };
            let wanted = wanted(workspace, &[]);
            if wanted.is_empty() {
                println!("# No crate in this workspace needs a server: nothing started.");
            }
            sweep(workspace)?;
            provide(&wanted)?;
            for server in wanted {
                println!("{}", detached::export(&detached::up(server, durability, &records)?)?);
            }
        }
        Action::Down => {
            let stopped = detached::down(&records)?;
            if stopped.is_empty() {
                println!("Nothing to stop: `up` has started nothing that still runs.");
            }
            for record in stopped {
                println!("stopped {} on port {}", record.server, record.place.port);
            }
        }
        Action::Status => {
            let all = detached::list(&records);
            if all.is_empty() {
                println!("No server was started from this workspace.");
            }
            for record in all {
                println!("{}", status(&record, record.age(&records)));
            }
        }
    }
    Ok(())
}

/// The servers of one run.
#[derive(Default)]
pub(crate) struct Servers {
    running: Vec<Running>,
}

impl Servers {
    /// Starts the servers of these back-ends.
    pub(crate) fn start(
        workspace: &Workspace,
        wanted: &[&'static dyn Server],
        durability: Durability,
    ) -> Result<Self> {
        let mut servers = Self::default();
        for server in wanted {
            if is_given(*server) {
                println!("    {} is at the address in {}", server.name(), server.variable());
                continue;
            }
            let running = Running::start(*server, durability, &records(workspace))?;
            println!("    {} serves at {}", server.name(), running.address());
            servers.running.push(running);
        }
        Ok(servers)
    }

    /// Adds the addresses of the servers to the environment of a command.
    pub(crate) fn add_variables(&self, command: &mut Command) {
        command.envs(self.running.iter().map(Running::environment));
    }
}

/// Stops servers of earlier runs that were killed.
pub(crate) fn sweep(workspace: &Workspace) -> Result<()> {
    for record in detached::sweep(&records(workspace))? {
        eprintln!("    stopped {} of an earlier run that was killed", record.server);
    }
    Ok(())
}

/// Installs the missing ones of these, unless their address is in the environment.
pub(crate) fn provide(wanted: &[&'static dyn Server]) -> Result<()> {
    let ours: Vec<&dyn Server> = wanted
        .iter()
        .copied()
        .filter(|server| !is_given(*server))
        .map(|server| server as _)
        .collect();
    needs::provide(&ours)
}

/// Returns the servers of the existing back-ends, except these.
pub(crate) fn wanted(workspace: &Workspace, without: &[String]) -> Vec<&'static dyn Server> {
    let has = |folder: &str| workspace.has(&format!("{folder}/Cargo.toml"));
    chosen(SERVERS, has, without)
}

fn chosen(
    servers: &[&'static dyn Server],
    has: impl Fn(&str) -> bool,
    without: &[String],
) -> Vec<&'static dyn Server> {
    let is_wanted = |server: &&&'static dyn Server| {
        has(server.folder()) && !without.iter().any(|name| name == server.name())
    };
    servers.iter().filter(is_wanted).copied().collect()
}

fn is_given(server: &dyn Server) -> bool {
    std::env::var_os(server.variable()).is_some_and(|address| !address.is_empty())
}

pub(crate) fn records(workspace: &Workspace) -> PathBuf {
    workspace.target().join("servers")
}

fn status(record: &Record, age: Option<Duration>) -> String {
    let Record { server, place, owner } = record;
    let life = match record.live_pid() {
        Some(pid) => format!("process {pid}"),
        None => "not running".to_owned(),
    };
    let owner = match owner {
        Owner::Person => "started by `up`".to_owned(),
        Owner::Run(pid) => format!("belongs to run {pid}"),
    };
    let durable = match place.durability {
        Durability::Durable => "durable",
        Durability::Relaxed => "relaxed",
    };
    let age = age.map_or("an unknown time".to_owned(), spoken);
    format!(
        "{server}  127.0.0.1:{}  {life}  for {age}  {durable}  {owner}  in {}",
        place.port,
        place.folder.display()
    )
}

fn spoken(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_that_exist_and_are_not_left_out_want_a_server() {
        let count = |has: bool, without: &[&str]| {
            let without: Vec<String> = without.iter().map(ToString::to_string).collect();
            chosen(SERVERS, |_| has, &without).len()
        };
        assert_eq!(count(true, &[]), SERVERS.len());
        assert_eq!(count(false, &[]), 0);
        assert_eq!(count(true, &["postgres"]), SERVERS.len() - 1);
    }

    #[test]
    fn an_age_is_shown_in_a_fitting_unit() {
        assert_eq!(spoken(Duration::from_secs(90)), "90 s");
        assert_eq!(spoken(Duration::from_secs(600)), "10 min");
        assert_eq!(spoken(Duration::from_secs(7_200)), "2 h");
    }
}
