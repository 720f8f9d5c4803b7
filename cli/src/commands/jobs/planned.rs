//! Planned one-time jobs: lists them, and pauses, resumes, triggers and cancels those of a name.

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::client::Call;
use crate::command_context::CommandContext;
use crate::commands::paging::Paging;
use crate::render::{Table, counted, relative, short, word};

/// Commands about planned one-time jobs.
#[derive(Debug, Subcommand)]
pub(super) enum PlannedCommand {
    /// List pending and running one-time jobs.
    List(List),
    /// Pause pending one-time jobs until they are resumed.
    Pause(Pause),
    /// Resume paused one-time jobs; those past their time run now.
    Resume(Selection),
    /// Run pending and paused one-time jobs now.
    Trigger(Selection),
    /// Cancel pending one-time jobs with a key.
    Cancel(Cancel),
}

/// Selection of one-time jobs.
#[derive(Debug, Args)]
pub(super) struct Selection {
    /// Name of the one-time jobs.
    name: String,
    /// Only with this key; default: all of the name.
    #[arg(long)]
    key: Option<String>,
}

/// Arguments of `jobs planned list`.
#[derive(Debug, Args)]
pub(super) struct List {
    /// Name of the one-time jobs; default: every name.
    name: Option<String>,
    /// Only with this key.
    #[arg(long)]
    key: Option<String>,
    #[command(flatten)]
    paging: Paging,
}

/// Arguments of `jobs planned pause`.
#[derive(Debug, Args)]
pub(super) struct Pause {
    #[command(flatten)]
    selection: Selection,
    /// Reason, shown to other operators.
    #[arg(long)]
    reason: String,
}

/// Arguments of `jobs planned cancel`.
#[derive(Debug, Args)]
pub(super) struct Cancel {
    /// Name of the one-time jobs.
    name: String,
    /// Key of the one-time jobs.
    #[arg(long)]
    key: String,
}

pub(super) async fn run(context: &CommandContext, command: &PlannedCommand) -> Result<()> {
    match command {
        PlannedCommand::List(args) => list(context, args).await,
        PlannedCommand::Pause(Pause { selection, reason }) => {
            let mut body = key_body(selection);
            body["reason"] = reason.as_str().into();
            change(context, selection, "pause", body, "paused until resumed").await
        }
        PlannedCommand::Resume(selection) => {
            change(context, selection, "resume", key_body(selection), "resumed").await
        }
        PlannedCommand::Trigger(selection) => {
            change(context, selection, "trigger", key_body(selection), "triggered").await
        }
        PlannedCommand::Cancel(Cancel { name, key }) => {
            let call = Call::post(&["jobs", name, "planned", "cancel"], json!({ "key": key }));
            context
                .show(call, |response| {
                    let count = response["cancelled"].as_u64().unwrap_or_default();
                    format!(
                        "{} of {name} with key {key} cancelled.",
                        counted(count, "one-time job")
                    )
                })
                .await
        }
    }
}

async fn list(context: &CommandContext, List { name, key, paging }: &List) -> Result<()> {
    let call = match name {
        Some(name) => Call::get(&["jobs", name, "planned"]),
        None => Call::get(&["messages"])
            .with("planned", Some(true))
            .with("state", Some("pending,running")),
    };
    let call = paging.apply(call.with("key", key.as_ref()));
    context
        .list(call, "planned one-time jobs", |items| {
            let mut table = Table::new(&["job", "message", "key", "state", "due", "paused"]);
            for one in items {
                table.row([
                    short(&one["job"], 40),
                    word(&one["id"]),
                    short(&one["key"], 40),
                    word(&one["phase"]),
                    relative(&one["due_at"], context.client.now()),
                    paused(&one["paused"]),
                ]);
            }
            table
        })
        .await
}

fn paused(pause: &Value) -> String {
    match pause {
        Value::Null => String::new(),
        pause => format!("by {}: {}", word(&pause["by"]), short(&pause["reason"], 50)),
    }
}

/// Returns the body that selects a key.
fn key_body(selection: &Selection) -> Value {
    selection.key.as_ref().map_or_else(|| json!({}), |key| json!({ "key": key }))
}

async fn change(
    context: &CommandContext,
    selection: &Selection,
    verb: &str,
    body: Value,
    done: &str,
) -> Result<()> {
    let call = Call::post(&["jobs", &selection.name, "planned", verb], body);
    context
        .show(call, |response| {
            let count = response["messages"].as_array().map_or(0, Vec::len) as u64;
            let mut text =
                format!("{} of {} {done}.", counted(count, "one-time job"), selection.name);
            if let Some(unchanged) = response["unchanged"].as_u64().filter(|count| *count > 0) {
                text = format!("{text} {unchanged} unchanged or running.");
            }
            if response["more"].as_bool() == Some(true) {
                text = format!("{text}\nMore one-time jobs match; run it again for the rest.");
            }
            text
        })
        .await
}
