//! `punctual queues`: lists, pauses, resizes and purges queues.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use punctual::jiff::Timestamp;
use serde_json::{Value, json};

use super::jobs::{Until, indented, pause_summary};
use super::messages::{Action, run_bulk};
use crate::client::Call;
use crate::command_context::{CommandContext, ConnectionArgs, run_command};
use crate::render::{Table, duration_of, facts, stamp, word};

/// Arguments of `punctual queues`.
#[derive(Debug, Args)]
pub(crate) struct QueuesArgs {
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(subcommand)]
    command: QueuesCommand,
}

/// Commands about queues.
#[derive(Debug, Subcommand)]
enum QueuesCommand {
    /// List queues with their counts and rates.
    List,
    /// Show a queue with the keys that have the most messages.
    Show(QueueName),
    /// Pause a queue on all workers; running messages continue.
    Pause(Pause),
    /// Resume a paused queue.
    Resume(QueueName),
    /// Set the number of messages of a queue that each process runs in parallel.
    Concurrency(Concurrency),
    /// Delete the pending messages of a queue.
    Purge(Purge),
}

/// Name of a queue.
#[derive(Debug, Args)]
struct QueueName {
    /// Name of the queue.
    name: String,
}

/// Arguments of `queues pause`.
#[derive(Debug, Args)]
struct Pause {
    /// Name of the queue.
    name: String,
    /// Reason, shown to other operators.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    until: Until,
}

/// Arguments of `queues concurrency`.
#[derive(Debug, Args)]
struct Concurrency {
    /// Name of the queue.
    name: String,
    /// Largest number of messages that each process runs in parallel, 1 to 10000.
    max: u32,
}

/// Arguments of `queues purge`.
#[derive(Debug, Args)]
struct Purge {
    /// Name of the queue.
    name: String,
    /// Print how many messages match, without changing them.
    #[arg(long)]
    dry_run: bool,
    /// Reason for the audit log.
    #[arg(long)]
    reason: Option<String>,
}

/// Runs the command.
pub(crate) fn run(arguments: &QueuesArgs) -> ExitCode {
    run_command(&arguments.connection, async |context| match &arguments.command {
        QueuesCommand::List => context.list(Call::get(&["queues"]), "queues", rows).await,
        QueuesCommand::Show(QueueName { name }) => {
            context.show(Call::get(&["queues", name]), |queue| details(context, queue)).await
        }
        QueuesCommand::Pause(args) => pause(context, args).await,
        QueuesCommand::Resume(QueueName { name }) => {
            let call = Call::post(&["queues", name, "resume"], json!({}));
            context.show(call, |_| format!("{name} is resumed.")).await
        }
        QueuesCommand::Concurrency(Concurrency { name, max }) => {
            let call = Call::post(&["queues", name, "concurrency"], json!({ "max": max }));
            context
                .show(call, |_| {
                    format!("Each process runs at most {max} messages of {name} in parallel.")
                })
                .await
        }
        QueuesCommand::Purge(args) => {
            let mut body = json!({});
            if let Some(reason) = &args.reason {
                body["reason"] = reason.as_str().into();
            }
            let path = ["queues", args.name.as_str(), "purge"];
            run_bulk(context, &Action::purge(), (&path, body), args.dry_run).await
        }
    })
}

/// Returns the table of queues.
fn rows(items: &[Value]) -> Table {
    let mut table = Table::new(&[
        "name",
        "state",
        "ready",
        "scheduled",
        "running",
        "dead",
        "oldest",
        "in/s",
        "out/s",
    ]);
    for queue in items {
        let state = if queue["paused"].is_null() { "active" } else { "paused" };
        let [ready, scheduled] = pending_counts(queue);
        table.row([
            word(&queue["name"]),
            state.to_owned(),
            ready,
            scheduled,
            word(&queue["running"]),
            word(&queue["dead"]),
            duration_of(&queue["oldest_age_ms"]),
            rate(&queue["rate"]["in_per_s"]),
            rate(&queue["rate"]["out_per_s"]),
        ]);
    }
    table
}

/// Returns the numbers of ready and scheduled messages; bounds when the server counted only some of them.
pub(crate) fn pending_counts(queue: &Value) -> [String; 2] {
    let [ready, scheduled] = [&queue["ready"], &queue["scheduled"]].map(word);
    match queue["is_exact"].as_bool() {
        Some(false) => [format!("<={ready}"), format!(">={scheduled}")],
        _ => [ready, scheduled],
    }
}

/// Returns a rate with one decimal.
pub(crate) fn rate(value: &Value) -> String {
    value.as_f64().map_or_else(|| word(value), |rate| format!("{rate:.1}"))
}

/// Returns the details of a queue.
fn details(context: &CommandContext, queue: &Value) -> String {
    let now: Timestamp = context.client.now();
    let [ready, scheduled] = pending_counts(queue);
    let rows = [
        ("name", word(&queue["name"])),
        ("paused", pause_summary(&queue["paused"], now)),
        ("ready", ready),
        ("scheduled", scheduled),
        ("running", word(&queue["running"])),
        ("dead", word(&queue["dead"])),
        ("oldest", duration_of(&queue["oldest_age_ms"])),
        ("concurrency", word(&queue["concurrency"])),
        ("in/s", rate(&queue["rate"]["in_per_s"])),
        ("out/s", rate(&queue["rate"]["out_per_s"])),
    ];
    let keys = queue["keys"].as_array().map(Vec::as_slice).unwrap_or_default();
    if keys.is_empty() {
        return facts(&rows);
    }
    let mut table = Table::new(&["key", "pending", "running"]);
    for key in keys {
        table.row([word(&key["key"]), word(&key["pending"]), word(&key["running"])]);
    }
    format!("{}\n\nkeys\n{}", facts(&rows), indented(&context.table_text(&table)))
}

async fn pause(context: &CommandContext, pause: &Pause) -> Result<()> {
    let mut body = json!({ "reason": pause.reason });
    if let Some(until) = pause.until.instant() {
        body["until"] = until.to_string().into();
    }
    let call = Call::post(&["queues", &pause.name, "pause"], body);
    context
        .show(call, |queue| match &queue["paused"]["until"] {
            Value::Null => format!("{} is paused until it is resumed.", pause.name),
            until => format!("{} is paused until {}.", pause.name, stamp(until)),
        })
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inexact_counts_are_shown_as_bounds() {
        let queue = |is_exact| json!({ "ready": 9_000, "scheduled": 20, "is_exact": is_exact });
        assert_eq!(pending_counts(&queue(Value::Bool(true))), ["9000", "20"]);
        assert_eq!(pending_counts(&queue(Value::Bool(false))), ["<=9000", ">=20"]);
        assert_eq!(pending_counts(&queue(Value::Null)), ["9000", "20"], "of an older server");
    }
}
