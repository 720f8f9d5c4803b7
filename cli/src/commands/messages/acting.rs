//! Acting on messages: those that are named, or all that match.

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use super::Filter;
use crate::client::Call;
use crate::desk::Desk;
use crate::failure::Failure;
use crate::render::counted;

/// Which messages, and why.
#[derive(Debug, Args)]
pub(super) struct Chosen {
    /// The messages; without any, all that match the filter.
    ids: Vec<String>,
    #[command(flatten)]
    filter: Filter,
    /// At most so many of those that match, newest first; 1 to 10000.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    limit: u32,
    /// Only say how many it would be about.
    #[arg(long)]
    dry_run: bool,
    /// Why, for the audit trail.
    #[arg(long)]
    reason: Option<String>,
}

pub(super) async fn act(desk: &Desk, action: &'static str, chosen: &Chosen) -> Result<()> {
    match (chosen.ids.is_empty(), chosen.filter.is_empty()) {
        (true, true) => Err(Failure::wrong(format!("nothing says which messages to {action}"))
            .hint("name ids, or give a filter such as --topic or --state")
            .into()),
        (false, false) => Err(Failure::wrong("there are both ids and a filter")
            .hint("leave one of them out")
            .into()),
        (false, true) => each(desk, action, chosen).await,
        (true, false) => bulk(desk, action, chosen).await,
    }
}

/// Those that are named, one after the other.
async fn each(desk: &Desk, action: &'static str, chosen: &Chosen) -> Result<()> {
    let count = chosen.ids.len() as u64;
    if chosen.dry_run {
        return desk
            .print(&json!({ "count": count, "dry_run": true }), |_| would(action, count, false));
    }
    if action == "delete" || count > 1 {
        desk.confirm(&format!("{} {}", capital(action), counted(count, "message")))?;
    }
    let body =
        chosen.reason.as_ref().map_or_else(|| json!({}), |reason| json!({ "reason": reason }));
    let mut answers = Vec::new();
    for id in &chosen.ids {
        let call = Call::post(&["messages", id, action], body.clone());
        answers.push(desk.ask(call).await?);
    }
    let asked = answers.iter().filter(|answer| answer["result"] == "requested").count() as u64;
    let swept = json!({ "items": answers, "applied": count - asked, "requested": asked });
    desk.print(&swept, |swept| done(action, swept))
}

/// All that match.
async fn bulk(desk: &Desk, action: &'static str, chosen: &Chosen) -> Result<()> {
    let mut body = json!({
        "action": action,
        "filter": chosen.filter.body(),
        "limit": chosen.limit,
        "dry_run": true,
    });
    if let Some(reason) = &chosen.reason {
        body["reason"] = reason.as_str().into();
    }
    sweep(desk, action, (&["messages", "bulk"], body), chosen.dry_run).await
}

/// Asks how many it is about, then whether that is meant, then does it.
pub(crate) async fn sweep(
    desk: &Desk,
    action: &str,
    (path, mut body): (&[&str], Value),
    dry_run: bool,
) -> Result<()> {
    body["dry_run"] = true.into();
    let planned = desk.ask(Call::post(path, body.clone())).await?;
    let count = planned["count"].as_u64().unwrap_or_default();
    let more = planned["more"].as_bool() == Some(true);
    if dry_run || count == 0 {
        return desk.print(&planned, |_| would(action, count, more));
    }
    desk.confirm(&format!("{} {}", capital(action), counted(count, "message")))?;
    body["dry_run"] = false.into();
    desk.show(Call::post(path, body), |swept| done(action, swept)).await
}

fn capital(action: &str) -> String {
    let mut letters = action.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn would(action: &str, count: u64, more: bool) -> String {
    let rest = if more { "; there are more beyond the limit" } else { "" };
    format!("This would {action} {}{rest}. Nothing was changed.", counted(count, "message"))
}

/// What it came to.
fn done(action: &str, swept: &Value) -> String {
    let of = |key: &str| swept[key].as_u64().unwrap_or_default();
    let past = match action {
        "cancel" => "cancelled",
        "redrive" => "redriven",
        "discard" => "discarded",
        "purge" => "purged",
        _ => "deleted",
    };
    let mut text = format!("{} {past}.", counted(of("applied"), "message"));
    if of("requested") > 0 {
        text = format!(
            "{text} {} asked to stop; that may take a moment.",
            counted(of("requested"), "handler")
        );
    }
    if of("refused") > 0 {
        text = format!(
            "{text} {} changed in the meantime and stayed.",
            counted(of("refused"), "message")
        );
    }
    if swept["more"].as_bool() == Some(true) {
        text = format!("{text}\nThere are more; run it again for the rest.");
    }
    text
}
