//! Planned one-time jobs: those of every name that wait or run, listed, and those of a name, steered.

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::client::Call;
use crate::commands::paging::Paging;
use crate::desk::Desk;
use crate::render::{Table, away, counted, short, word};

/// What to do with planned one-time jobs.
#[derive(Debug, Subcommand)]
pub(super) enum Planned {
    /// Those that wait or run, of every name or of one.
    List(List),
    /// Hold back those that wait until they are resumed.
    Pause(Pause),
    /// Let paused ones run at their own time, or now if it has passed.
    Resume(Which),
    /// Run those that wait now, also paused ones.
    Trigger(Which),
    /// Cancel those that wait and are about a key.
    Cancel(Cancel),
}

/// Which ones.
#[derive(Debug, Args)]
pub(super) struct Which {
    /// The name they were planned by.
    name: String,
    /// Only those about this key; all of the name when not given.
    #[arg(long)]
    key: Option<String>,
}

/// Which ones are listed.
#[derive(Debug, Args)]
pub(super) struct List {
    /// The name they were planned by; every name when not given.
    name: Option<String>,
    /// Only those about this key.
    #[arg(long)]
    key: Option<String>,
    #[command(flatten)]
    paging: Paging,
}

/// Which ones, and why.
#[derive(Debug, Args)]
pub(super) struct Pause {
    #[command(flatten)]
    which: Which,
    /// Why; the next person on call reads it.
    #[arg(long)]
    reason: String,
}

/// Which ones are cancelled.
#[derive(Debug, Args)]
pub(super) struct Cancel {
    /// The name they were planned by.
    name: String,
    /// The key they are about.
    #[arg(long)]
    key: String,
}

pub(super) async fn run(desk: &Desk, planned: &Planned) -> Result<()> {
    match planned {
        Planned::List(wanted) => list(desk, wanted).await,
        Planned::Pause(Pause { which, reason }) => {
            let mut body = narrowed(which);
            body["reason"] = reason.as_str().into();
            change(desk, which, "pause", body, "paused until resumed").await
        }
        Planned::Resume(which) => change(desk, which, "resume", narrowed(which), "resumed").await,
        Planned::Trigger(which) => {
            change(desk, which, "trigger", narrowed(which), "triggered").await
        }
        Planned::Cancel(Cancel { name, key }) => {
            let call = Call::post(&["jobs", name, "planned", "cancel"], json!({ "key": key }));
            desk.show(call, |answer| {
                let count = answer["cancelled"].as_u64().unwrap_or_default();
                format!("{} of {name} about {key} cancelled.", counted(count, "one-time job"))
            })
            .await
        }
    }
}

async fn list(desk: &Desk, List { name, key, paging }: &List) -> Result<()> {
    let call = match name {
        Some(name) => Call::get(&["jobs", name, "planned"]),
        None => Call::get(&["messages"])
            .with("planned", Some(true))
            .with("state", Some("pending,running")),
    };
    let call = paging.on(call.with("key", key.as_ref()));
    desk.list(call, "planned one-time jobs", |items| {
        let mut table = Table::new(&["job", "message", "key", "state", "due", "paused"]);
        for one in items {
            table.row([
                short(&one["job"], 40),
                word(&one["id"]),
                short(&one["key"], 40),
                word(&one["phase"]),
                away(&one["due_at"], desk.client.now()),
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

fn narrowed(which: &Which) -> Value {
    which.key.as_ref().map_or_else(|| json!({}), |key| json!({ "key": key }))
}

async fn change(desk: &Desk, which: &Which, verb: &str, body: Value, done: &str) -> Result<()> {
    let call = Call::post(&["jobs", &which.name, "planned", verb], body);
    desk.show(call, |answer| {
        let count = answer["messages"].as_array().map_or(0, Vec::len) as u64;
        let mut text = format!("{} of {} {done}.", counted(count, "one-time job"), which.name);
        if let Some(unchanged) = answer["unchanged"].as_u64().filter(|count| *count > 0) {
            text = format!("{text} {unchanged} needed no change or were running.");
        }
        if answer["more"].as_bool() == Some(true) {
            text = format!("{text}\nMore match; run it again for the rest.");
        }
        text
    })
    .await
}
