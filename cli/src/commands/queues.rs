//! `punctual queues`: how the lines stand, and pausing, resizing and emptying one.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use punctual::jiff::Timestamp;
use serde_json::{Value, json};

use super::jobs::{Until, indented, paused};
use super::messages::{Deed, sweep};
use crate::client::Call;
use crate::desk::{Desk, Reach, at_desk};
use crate::render::{Table, facts, stamp, took, word};

/// Queues: the lines in which messages wait.
#[derive(Debug, Args)]
pub(crate) struct QueuesArgs {
    #[command(flatten)]
    reach: Reach,
    #[command(subcommand)]
    command: QueuesCommand,
}

/// What to do with queues.
#[derive(Debug, Subcommand)]
enum QueuesCommand {
    /// Every queue and how it stands.
    List,
    /// One queue, with the keys that have the most messages.
    Show(Named),
    /// Take nothing more from a queue, on any node; what runs goes on.
    Pause(Pause),
    /// Take from a queue again.
    Resume(Named),
    /// Say how many messages of a queue each process handles at once.
    Concurrency(Concurrency),
    /// Delete what waits in a queue.
    Purge(Purge),
}

/// A queue.
#[derive(Debug, Args)]
struct Named {
    /// The queue.
    name: String,
}

/// Why, and how long.
#[derive(Debug, Args)]
struct Pause {
    /// The queue.
    name: String,
    /// Why; the next person on call reads it.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    until: Until,
}

/// How many at once.
#[derive(Debug, Args)]
struct Concurrency {
    /// The queue.
    name: String,
    /// How many each process handles at once, 1 to 10000.
    max: u32,
}

/// Whether it is meant.
#[derive(Debug, Args)]
struct Purge {
    /// The queue.
    name: String,
    /// Only say how many it would be about.
    #[arg(long)]
    dry_run: bool,
    /// Why, for the audit trail.
    #[arg(long)]
    reason: Option<String>,
}

/// Runs one of them.
pub(crate) fn run(arguments: &QueuesArgs) -> ExitCode {
    at_desk(&arguments.reach, async |desk| match &arguments.command {
        QueuesCommand::List => desk.list(Call::get(&["queues"]), "queues", rows).await,
        QueuesCommand::Show(named) => {
            desk.show(Call::get(&["queues", &named.name]), |queue| one(desk, queue)).await
        }
        QueuesCommand::Pause(wanted) => pause(desk, wanted).await,
        QueuesCommand::Resume(named) => {
            let call = Call::post(&["queues", &named.name, "resume"], json!({}));
            desk.show(call, |_| format!("{} is taken from again.", named.name)).await
        }
        QueuesCommand::Concurrency(wanted) => {
            let body = json!({ "max": wanted.max });
            let call = Call::post(&["queues", &wanted.name, "concurrency"], body);
            desk.show(call, |_| {
                format!("Each process handles {} of {} at once.", wanted.max, wanted.name)
            })
            .await
        }
        QueuesCommand::Purge(wanted) => {
            let mut body = json!({});
            if let Some(reason) = &wanted.reason {
                body["reason"] = reason.as_str().into();
            }
            let path = ["queues", wanted.name.as_str(), "purge"];
            sweep(desk, &Deed::purge(), (&path, body), wanted.dry_run).await
        }
    })
}

/// Queues, one on a line.
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
        let [ready, scheduled] = waiting(queue);
        table.row([
            word(&queue["name"]),
            state.to_owned(),
            ready,
            scheduled,
            word(&queue["running"]),
            word(&queue["dead"]),
            took(&queue["oldest_age_ms"]),
            rate(&queue["rate"]["in_per_s"]),
            rate(&queue["rate"]["out_per_s"]),
        ]);
    }
    table
}

/// How many are due, and how many later; bounds where the server looked at some of them only.
pub(crate) fn waiting(queue: &Value) -> [String; 2] {
    let [ready, scheduled] = [&queue["ready"], &queue["scheduled"]].map(word);
    match queue["is_exact"].as_bool() {
        Some(false) => [format!("<={ready}"), format!(">={scheduled}")],
        _ => [ready, scheduled],
    }
}

/// A rate with one digit behind the point.
pub(crate) fn rate(value: &Value) -> String {
    value.as_f64().map_or_else(|| word(value), |rate| format!("{rate:.1}"))
}

/// Everything about a queue.
fn one(desk: &Desk, queue: &Value) -> String {
    let now: Timestamp = desk.client.now();
    let [ready, scheduled] = waiting(queue);
    let known = [
        ("name", word(&queue["name"])),
        ("paused", paused(&queue["paused"], now)),
        ("ready", ready),
        ("scheduled", scheduled),
        ("running", word(&queue["running"])),
        ("dead", word(&queue["dead"])),
        ("oldest", took(&queue["oldest_age_ms"])),
        ("at once", word(&queue["concurrency"])),
        ("in/s", rate(&queue["rate"]["in_per_s"])),
        ("out/s", rate(&queue["rate"]["out_per_s"])),
    ];
    let keys = queue["keys"].as_array().map(Vec::as_slice).unwrap_or_default();
    if keys.is_empty() {
        return facts(&known);
    }
    let mut table = Table::new(&["key", "pending", "running"]);
    for key in keys {
        table.row([word(&key["key"]), word(&key["pending"]), word(&key["running"])]);
    }
    format!("{}\n\nkeys\n{}", facts(&known), indented(&desk.table_text(&table)))
}

async fn pause(desk: &Desk, pause: &Pause) -> Result<()> {
    let mut body = json!({ "reason": pause.reason });
    if let Some(until) = pause.until.instant() {
        body["until"] = until.to_string().into();
    }
    let call = Call::post(&["queues", &pause.name, "pause"], body);
    desk.show(call, |queue| match &queue["paused"]["until"] {
        Value::Null => format!("{} is paused until somebody resumes it.", pause.name),
        until => format!("{} is paused until {}.", pause.name, stamp(until)),
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_all_looked_at_is_shown_as_bounds() {
        let queue = |is_exact| json!({ "ready": 9_000, "scheduled": 20, "is_exact": is_exact });
        assert_eq!(waiting(&queue(Value::Bool(true))), ["9000", "20"]);
        assert_eq!(waiting(&queue(Value::Bool(false))), ["<=9000", ">=20"]);
        assert_eq!(waiting(&queue(Value::Null)), ["9000", "20"], "of an older server");
    }
}
