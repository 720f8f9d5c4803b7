//! Acting on messages: those that are named, or all that match.

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use super::Filter;
use crate::client::Call;
use crate::desk::Desk;
use crate::failure::{Code, Failure};
use crate::render::counted;

/// Which messages, and why.
#[derive(Debug, Args)]
pub(super) struct Chosen {
    /// The messages; without any, all that match the filter.
    ids: Vec<String>,
    #[command(flatten)]
    filter: Filter,
    /// At most so many of those that match, newest first; 1 to 10000.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Only say how many it would be about.
    #[arg(long)]
    dry_run: bool,
    /// Why, for the audit trail.
    #[arg(long)]
    reason: Option<String>,
}

/// What is done, and how it is said.
#[derive(Clone, Debug)]
pub(crate) struct Deed {
    /// What the server calls it.
    verb: &'static str,
    /// What has become of a message.
    past: String,
    /// What the server is told besides.
    with: Value,
    /// What to say when there are more.
    rest: &'static str,
}

impl Deed {
    fn new(verb: &'static str, past: &str) -> Self {
        let rest = "There are more; run it again for the rest.";
        Self { verb, past: past.to_owned(), with: json!({}), rest }
    }

    /// One after which a message may match as before, so that running it again does the same again.
    pub(super) fn change(verb: &'static str, past: String, with: Value) -> Self {
        let rest = "There are more beyond the limit; narrow the filter to reach them.";
        Self { verb, past, with, rest }
    }

    pub(crate) fn cancel() -> Self {
        Self::new("cancel", "cancelled")
    }

    pub(crate) fn redrive() -> Self {
        Self::new("redrive", "redriven")
    }

    pub(crate) fn delete() -> Self {
        Self::new("delete", "deleted")
    }

    pub(crate) fn discard() -> Self {
        Self::new("discard", "discarded")
    }

    pub(crate) fn purge() -> Self {
        Self::new("purge", "purged")
    }

    /// What the server is told, with what else it has to know.
    fn body(&self, reason: Option<&str>, rest: Value) -> Value {
        let mut body = rest;
        for (name, value) in self.with.as_object().into_iter().flatten() {
            body[name] = value.clone();
        }
        if let Some(reason) = reason {
            body["reason"] = reason.into();
        }
        body
    }

    fn asked(&self, count: u64) -> String {
        format!("{} {}", capital(self.verb), counted(count, "message"))
    }

    fn would(&self, count: u64, more: bool) -> String {
        let rest = if more { "; there are more beyond the limit" } else { "" };
        format!(
            "This would {} {}{rest}. Nothing was changed.",
            self.verb,
            counted(count, "message")
        )
    }

    /// What it came to.
    fn done(&self, swept: &Value) -> String {
        let of = |key: &str| swept[key].as_u64().unwrap_or_default();
        let mut text = format!("{} {}.", counted(of("applied"), "message"), self.past);
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
            text = format!("{text}\n{}", self.rest);
        }
        text
    }
}

pub(super) async fn act(desk: &Desk, deed: &Deed, chosen: &Chosen) -> Result<()> {
    match (chosen.ids.is_empty(), chosen.filter.is_empty()) {
        (true, true) => {
            Err(Failure::wrong(format!("nothing says which messages to {}", deed.verb))
                .hint("name ids, or give a filter such as --topic or --state")
                .into())
        }
        (false, false) => Err(Failure::wrong("there are both ids and a filter")
            .hint("leave one of them out")
            .into()),
        (false, true) => each(desk, deed, chosen).await,
        (true, false) => {
            let (filter, limit) = (chosen.filter.body(), chosen.limit);
            let rest = json!({ "action": deed.verb, "filter": filter, "limit": limit });
            let body = deed.body(chosen.reason.as_deref(), rest);
            sweep(desk, deed, (&["messages", "bulk"], body), chosen.dry_run).await
        }
    }
}

/// Those that are named, one after the other. What is refused is counted, and the rest goes on; when nothing
/// was done, the first refusal is the answer.
async fn each(desk: &Desk, deed: &Deed, chosen: &Chosen) -> Result<()> {
    let count = chosen.ids.len() as u64;
    if chosen.dry_run {
        return desk
            .print(&json!({ "count": count, "dry_run": true }), |_| deed.would(count, false));
    }
    if deed.verb == "delete" || count > 1 {
        desk.confirm(&deed.asked(count))?;
    }
    let body = deed.body(chosen.reason.as_deref(), json!({}));
    let (mut answers, mut refusals) = (Vec::new(), Vec::new());
    for id in &chosen.ids {
        match desk.ask(Call::post(&["messages", id, deed.verb], body.clone())).await {
            Ok(answer) => answers.push(answer),
            Err(error) if is_refusal(&error) => refusals.push(error),
            Err(error) => return Err(error),
        }
    }
    let refused = refusals.len();
    if let (true, Some(first)) = (answers.is_empty(), refusals.into_iter().next()) {
        return Err(first);
    }
    let requested = answers.iter().filter(|answer| answer["result"] == "requested").count() as u64;
    let applied = answers.len() as u64 - requested;
    let swept = json!({
        "items": answers, "applied": applied, "requested": requested, "refused": refused,
    });
    desk.print(&swept, |swept| deed.done(swept))
}

fn is_refusal(error: &anyhow::Error) -> bool {
    let failure = error.downcast_ref::<Failure>();
    failure.is_some_and(|failure| matches!(failure.code, Code::Refused | Code::Missing))
}

/// Asks how many it is about, then whether that is meant, then does it.
pub(crate) async fn sweep(
    desk: &Desk,
    deed: &Deed,
    (path, mut body): (&[&str], Value),
    dry_run: bool,
) -> Result<()> {
    body["dry_run"] = true.into();
    let planned = desk.ask(Call::post(path, body.clone())).await?;
    let count = planned["count"].as_u64().unwrap_or_default();
    let more = planned["more"].as_bool() == Some(true);
    if dry_run || count == 0 {
        return desk.print(&planned, |_| deed.would(count, more));
    }
    desk.confirm(&deed.asked(count))?;
    body["dry_run"] = false.into();
    desk.show(Call::post(path, body), |swept| deed.done(swept)).await
}

fn capital(action: &str) -> String {
    let mut letters = action.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
