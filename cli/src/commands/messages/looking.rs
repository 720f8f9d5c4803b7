//! Looking at messages.

use anyhow::Result;
use clap::Args;
use punctual::jiff::Timestamp;
use serde_json::Value;

use super::Filter;
use crate::client::Call;
use crate::commands::executions;
use crate::commands::jobs::indented;
use crate::commands::paging::Paging;
use crate::desk::Desk;
use crate::render::{Table, away, facts, moment, short, word};

/// Which messages.
#[derive(Debug, Args)]
pub(super) struct List {
    #[command(flatten)]
    filter: Filter,
    /// Only say how many there are.
    #[arg(long)]
    count: bool,
    #[command(flatten)]
    paging: Paging,
}

pub(super) async fn list(desk: &Desk, list: &List) -> Result<()> {
    if list.count {
        let call = list.filter.on(Call::get(&["messages", "count"]));
        return desk
            .show(call, |answer| {
                let least = if answer["more"].as_bool() == Some(true) { "at least " } else { "" };
                format!("{least}{}", word(&answer["count"]))
            })
            .await;
    }
    let call = list.paging.on(list.filter.on(Call::get(&["messages"])));
    desk.list(call, "messages", |items| rows(items, desk.client.now())).await
}

/// Messages, one on a line.
pub(crate) fn rows(items: &[Value], now: Timestamp) -> Table {
    let mut table =
        Table::new(&["id", "state", "topic", "queue", "due", "attempt", "key", "error"]);
    for one in items {
        table.row([
            word(&one["id"]),
            word(&one["phase"]),
            short(&one["topic"], 40),
            short(&one["queue"], 30),
            away(&one["due_at"], now),
            attempts(one),
            short(&one["key"], 24),
            short(&one["error"], 50),
        ]);
    }
    table
}

fn attempts(one: &Value) -> String {
    match &one["attempts_max"] {
        Value::Null => word(&one["attempt"]),
        max => format!("{}/{max}", word(&one["attempt"])),
    }
}

pub(super) async fn why(desk: &Desk, id: &str) -> Result<()> {
    let message = desk.ask(Call::get(&["messages", id])).await?;
    desk.print(&message["why"], reason)
}

/// Why a message is where it is.
fn reason(why: &Value) -> String {
    let details = why["details"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut text = word(&why["sentence"]);
    for detail in details {
        text = format!("{text}\n  {}", word(detail));
    }
    text
}

pub(super) async fn show(desk: &Desk, id: &str) -> Result<()> {
    desk.show(Call::get(&["messages", id]), |message| one(desk, message)).await
}

/// Everything about a message.
fn one(desk: &Desk, message: &Value) -> String {
    let now = desk.client.now();
    let progress = &message["progress"];
    let done =
        progress["percent"].as_u64().map_or(String::new(), |percent| format!("{percent} % "));
    let known = [
        ("id", word(&message["id"])),
        ("state", word(&message["phase"])),
        ("why", reason(&message["why"]).replace('\n', "; ")),
        ("topic", word(&message["topic"])),
        ("queue", word(&message["queue"])),
        ("key", word(&message["key"])),
        ("dedupe", word(&message["dedupe"])),
        ("job", word(&message["job"])),
        ("nominal", word(&message["nominal"])),
        ("priority", word(&message["priority"])),
        ("source", word(&message["source"])),
        ("made", moment(&message["created_at"], now)),
        ("due", moment(&message["due_at"], now)),
        ("ended", moment(&message["ended_at"], now)),
        ("attempts", attempts(message)),
        ("error", word(&message["error"])),
        ("dead because", word(&message["dead"])),
        ("held by", word(&message["lease"]["owner"])),
        ("held until", moment(&message["lease"]["until"], now)),
        ("progress", format!("{done}{}", word(&progress["note"]))),
        ("batch", word(&message["batch"])),
        ("waits for batch", word(&message["waits_for"])),
        ("correlation", word(&message["correlation"])),
        ("transport", word(&message["transport"])),
    ];
    let mut text = facts(&known);
    if let Some(headers) = message["headers"].as_object().filter(|headers| !headers.is_empty()) {
        let headers: Vec<String> = headers
            .iter()
            .map(|(name, value)| format!("  {}: {}", word(&name.as_str().into()), word(value)))
            .collect();
        text = format!("{text}\n\nheaders\n{}", headers.join("\n"));
    }
    text =
        format!("{text}\n\n{}", content(&message["body"], message["size"].as_u64().unwrap_or(0)));
    let attempts = message["executions"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !attempts.is_empty() {
        let table = executions::rows(attempts, now);
        text = format!("{text}\n\nexecutions\n{}", indented(&desk.table_text(&table)));
    }
    text
}

/// The content as far as it can be shown.
fn content(body: &Value, size: u64) -> String {
    let kind = word(&body["content_type"]);
    let cut = if body["truncated"].as_bool() == Some(true) { ", cut" } else { "" };
    let hidden = if body["redacted"].as_bool() == Some(true) { ", partly hidden" } else { "" };
    let head = format!("body ({kind}, {size} bytes{cut}{hidden})");
    let text = match (&body["json"], body["text"].as_str()) {
        (Value::Null, Some(text)) => text.to_owned(),
        (Value::Null, None) => word(&body["base64"]),
        (json, _) => serde_json::to_string_pretty(json).unwrap_or_default(),
    };
    format!("{head}\n{}", indented(&text))
}
