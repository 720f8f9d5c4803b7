//! `punctual workers`: lists worker processes, and stops or resumes their claiming.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::client::Call;
use crate::command_context::{CommandContext, ConnectionArgs, run_command};
use crate::render::{Table, relative, word};

/// Arguments of `punctual workers`.
#[derive(Debug, Args)]
pub(crate) struct WorkersArgs {
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(subcommand)]
    command: Option<WorkersCommand>,
}

/// Commands about workers; default: list.
#[derive(Debug, Subcommand)]
enum WorkersCommand {
    /// List worker processes.
    List,
    /// Stop a process from claiming messages; running messages continue.
    Quiet(Worker),
    /// Let a quiet process claim messages again.
    Wake(Worker),
}

/// A worker process, and the reason.
#[derive(Debug, Args)]
struct Worker {
    /// Id of the process, as `workers list` prints it.
    process: String,
    /// Reason for the audit log.
    #[arg(long)]
    reason: Option<String>,
}

/// Runs the command.
pub(crate) fn run(arguments: &WorkersArgs) -> ExitCode {
    run_command(&arguments.connection, async |context| match &arguments.command {
        None | Some(WorkersCommand::List) => {
            context.list(Call::get(&["workers"]), "workers", |items| rows(context, items)).await
        }
        Some(WorkersCommand::Quiet(worker)) => {
            change(context, worker, "quiet", "claims no more messages; running messages continue")
                .await
        }
        Some(WorkersCommand::Wake(worker)) => {
            change(context, worker, "wake", "claims messages again").await
        }
    })
}

async fn change(
    context: &CommandContext,
    worker: &Worker,
    action: &str,
    effect: &str,
) -> Result<()> {
    let body =
        worker.reason.as_ref().map_or_else(|| json!({}), |reason| json!({ "reason": reason }));
    let call = Call::post(&["workers", &worker.process, action], body);
    context.show(call, |_| format!("{} {effect}.", worker.process)).await
}

/// Returns the table of worker processes.
fn rows(context: &CommandContext, items: &[Value]) -> Table {
    let now = context.client.now();
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
            relative(&worker["seen_at"], now),
        ]);
    }
    table
}
