//! `punctual workers`: every process that lives, and telling one to be quiet.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::client::Call;
use crate::desk::{Desk, Reach, at_desk};
use crate::render::{Table, away, word};

/// Workers: the processes that live.
#[derive(Debug, Args)]
pub(crate) struct WorkersArgs {
    #[command(flatten)]
    reach: Reach,
    #[command(subcommand)]
    command: Option<WorkersCommand>,
}

/// What to do with workers; without a word they are listed.
#[derive(Debug, Subcommand)]
enum WorkersCommand {
    /// Every process.
    List,
    /// Let a process claim nothing more; what it runs goes on.
    Quiet(Named),
    /// Let a quiet process claim again.
    Wake(Named),
}

/// A process.
#[derive(Debug, Args)]
struct Named {
    /// The id of the process, as the list shows it.
    process: String,
    /// Why, for the audit trail.
    #[arg(long)]
    reason: Option<String>,
}

/// Runs one of them.
pub(crate) fn run(arguments: &WorkersArgs) -> ExitCode {
    at_desk(&arguments.reach, async |desk| match &arguments.command {
        None | Some(WorkersCommand::List) => {
            desk.list(Call::get(&["workers"]), "workers", |items| rows(desk, items)).await
        }
        Some(WorkersCommand::Quiet(named)) => {
            steer(desk, named, "quiet", "claims nothing more; what it runs goes on").await
        }
        Some(WorkersCommand::Wake(named)) => steer(desk, named, "wake", "claims again").await,
    })
}

async fn steer(desk: &Desk, named: &Named, how: &str, said: &str) -> Result<()> {
    let body =
        named.reason.as_ref().map_or_else(|| json!({}), |reason| json!({ "reason": reason }));
    let call = Call::post(&["workers", &named.process, how], body);
    desk.show(call, |_| format!("{} {said}.", named.process)).await
}

/// Processes, one on a line.
fn rows(desk: &Desk, items: &[Value]) -> Table {
    let now = desk.client.now();
    let mut table =
        Table::new(&["process", "name", "status", "kind", "version", "queues", "running", "seen"]);
    for worker in items {
        let is = |key: &str| worker[key].as_bool() == Some(true);
        let status = match (is("stopping"), is("quiet")) {
            (true, _) => "stopping",
            (_, true) => "quiet",
            _ => "active",
        };
        let queues = worker["queues"].as_array().map(Vec::as_slice).unwrap_or_default();
        let queues: Vec<String> = queues.iter().map(|queue| word(&queue["name"])).collect();
        table.row([
            word(&worker["process"]),
            word(&worker["name"]),
            status.to_owned(),
            word(&worker["kind"]),
            word(&worker["version"]),
            word(&json!(queues)),
            word(&worker["running"]),
            away(&worker["seen_at"], now),
        ]);
    }
    table
}
