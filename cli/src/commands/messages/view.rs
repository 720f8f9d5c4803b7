//! Views of messages: the list, one message, and the explanation of its state.

use anyhow::Result;
use clap::Args;
use punctual::jiff::Timestamp;
use serde_json::Value;

use super::Filter;
use crate::client::Call;
use crate::command_context::CommandContext;
use crate::commands::executions;
use crate::commands::jobs::indented;
use crate::commands::paging::Paging;
use crate::render::{Table, facts, moment, relative, short, word};

/// Arguments of `messages list`.
#[derive(Debug, Args)]
pub(super) struct List {
    #[command(flatten)]
    filter: Filter,
    /// Print only the number of messages.
    #[arg(long)]
    count: bool,
    #[command(flatten)]
    paging: Paging,
}

pub(super) async fn list(context: &CommandContext, list: &List) -> Result<()> {
    if list.count {
        let call = list.filter.apply(Call::get(&["messages", "count"]));
        return context
            .show(call, |response| {
                let is_more = response["more"].as_bool() == Some(true);
                let prefix = if is_more { "at least " } else { "" };
                format!("{prefix}{}", word(&response["count"]))
            })
            .await;
    }
    let call = list.paging.apply(list.filter.apply(Call::get(&["messages"])));
    context.list(call, "messages", |items| rows(items, context.client.now())).await
}

/// Returns the table of messages.
pub(crate) fn rows(items: &[Value], now: Timestamp) -> Table {
    let mut table =
        Table::new(&["id", "state", "topic", "queue", "due", "attempt", "key", "error"]);
    for one in items {
        table.row([
            word(&one["id"]),
            word(&one["phase"]),
            short(&one["topic"], 40),
            short(&one["queue"], 30),
            relative(&one["due_at"], now),
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

pub(super) async fn why(context: &CommandContext, id: &str) -> Result<()> {
    let message = context.send(Call::get(&["messages", id])).await?;
    context.print(&message["why"], reason)
}

/// Returns the explanation of the state of a message.
fn reason(why: &Value) -> String {
    let details = why["details"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut text = word(&why["sentence"]);
    for detail in details {
        text = format!("{text}\n  {}", word(detail));
    }
    text
}

pub(super) async fn show(context: &CommandContext, id: &str) -> Result<()> {
    context.show(Call::get(&["messages", id]), |message| details(context, message)).await
}

/// Returns the details of a message.
fn details(context: &CommandContext, message: &Value) -> String {
    let now = context.client.now();
    let progress = &message["progress"];
    let done =
        progress["percent"].as_u64().map_or(String::new(), |percent| format!("{percent} % "));
    let rows = [
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
        ("created", moment(&message["created_at"], now)),
        ("due", moment(&message["due_at"], now)),
        ("ended", moment(&message["ended_at"], now)),
        ("attempts", attempts(message)),
        ("error", word(&message["error"])),
        ("dead reason", word(&message["dead"])),
        ("lease owner", word(&message["lease"]["owner"])),
        ("lease until", moment(&message["lease"]["until"], now)),
        ("progress", format!("{done}{}", word(&progress["note"]))),
        ("batch", word(&message["batch"])),
        ("waits for batch", word(&message["waits_for"])),
        ("correlation", word(&message["correlation"])),
        ("transport", word(&message["transport"])),
    ];
    let mut text = facts(&rows);
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
        text = format!("{text}\n\nexecutions\n{}", indented(&context.table_text(&table)));
    }
    text
}

/// Returns the body of a message.
fn content(body: &Value, size: u64) -> String {
    let kind = word(&body["content_type"]);
    let truncated = if body["truncated"].as_bool() == Some(true) { ", truncated" } else { "" };
    let redacted = if body["redacted"].as_bool() == Some(true) { ", redacted" } else { "" };
    let head = format!("body ({kind}, {size} bytes{truncated}{redacted})");
    let text = match (&body["json"], body["text"].as_str()) {
        (Value::Null, Some(text)) => text.to_owned(),
        (Value::Null, None) => word(&body["base64"]),
        (json, _) => serde_json::to_string_pretty(json).unwrap_or_default(),
    };
    format!("{head}\n{}", indented(&text))
}
