//! Actions on messages: on given ids, or on all messages that match a filter.

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use super::Filter;
use crate::client::Call;
use crate::command_context::CommandContext;
use crate::error::{Code, CommandError};
use crate::render::counted;

/// Selection of messages, and the reason.
#[derive(Debug, Args)]
pub(super) struct Selection {
    /// Ids of the messages; without ids, all that match the filter.
    ids: Vec<String>,
    #[command(flatten)]
    filter: Filter,
    /// Largest number of matching messages, newest first; 1 to 10000.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Print how many messages match, without changing them.
    #[arg(long)]
    dry_run: bool,
    /// Reason for the audit log.
    #[arg(long)]
    reason: Option<String>,
}

/// An action of the API and its texts.
#[derive(Clone, Debug)]
pub(crate) struct Action {
    /// Name of the action in the API.
    verb: &'static str,
    /// Participle for the result, such as `cancelled`.
    past: String,
    /// Parameters of the action.
    parameters: Value,
    /// Note when more messages match than the limit.
    more_note: &'static str,
}

impl Action {
    fn new(verb: &'static str, past: &str) -> Self {
        let more_note = "More messages match; run it again for the rest.";
        Self { verb, past: past.to_owned(), parameters: json!({}), more_note }
    }

    /// Creates an action after which a message may still match, so that a second run repeats it.
    pub(super) fn change(verb: &'static str, past: String, parameters: Value) -> Self {
        let more_note = "More messages match than the limit; narrow the filter.";
        Self { verb, past, parameters, more_note }
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

    /// Adds the parameters and the reason to a request body.
    fn body(&self, reason: Option<&str>, mut body: Value) -> Value {
        for (name, value) in self.parameters.as_object().into_iter().flatten() {
            body[name] = value.clone();
        }
        if let Some(reason) = reason {
            body["reason"] = reason.into();
        }
        body
    }

    /// Returns the text of the confirmation.
    fn confirmation(&self, count: u64) -> String {
        format!("{} {}", capitalized(self.verb), counted(count, "message"))
    }

    /// Returns the text of a dry run.
    fn dry_run(&self, count: u64, more: bool) -> String {
        let rest = if more { "; more match than the limit" } else { "" };
        format!(
            "This would {} {}{rest}. Nothing was changed.",
            self.verb,
            counted(count, "message")
        )
    }

    /// Returns the text of a result.
    fn summary(&self, result: &Value) -> String {
        let of = |key: &str| result[key].as_u64().unwrap_or_default();
        let mut text = format!("{} {}.", counted(of("applied"), "message"), self.past);
        if of("requested") > 0 {
            text = format!(
                "{text} {} asked to stop, which may take a moment.",
                counted(of("requested"), "handler")
            );
        }
        if of("refused") > 0 {
            text = format!(
                "{text} {} not changed, because the state has changed in the meantime.",
                counted(of("refused"), "message")
            );
        }
        if result["more"].as_bool() == Some(true) {
            text = format!("{text}\n{}", self.more_note);
        }
        text
    }
}

pub(super) async fn act(
    context: &CommandContext,
    action: &Action,
    selection: &Selection,
) -> Result<()> {
    match (selection.ids.is_empty(), selection.filter.is_empty()) {
        (true, true) => {
            Err(CommandError::invalid_input(format!("no messages to {} are selected", action.verb))
                .hint("give ids, or a filter such as --topic or --state")
                .into())
        }
        (false, false) => Err(CommandError::invalid_input("ids and a filter exclude each other")
            .hint("leave one of them out")
            .into()),
        (false, true) => each(context, action, selection).await,
        (true, false) => {
            let (filter, limit) = (selection.filter.body(), selection.limit);
            let rest = json!({ "action": action.verb, "filter": filter, "limit": limit });
            let body = action.body(selection.reason.as_deref(), rest);
            run_bulk(context, action, (&["messages", "bulk"], body), selection.dry_run).await
        }
    }
}

/// Runs the action on each id. Refused ones are counted and do not stop the others; when all are refused, the first
/// error is returned.
async fn each(context: &CommandContext, action: &Action, selection: &Selection) -> Result<()> {
    let count = selection.ids.len() as u64;
    if selection.dry_run {
        return context
            .print(&json!({ "count": count, "dry_run": true }), |_| action.dry_run(count, false));
    }
    if action.verb == "delete" || count > 1 {
        context.confirm(&action.confirmation(count))?;
    }
    let body = action.body(selection.reason.as_deref(), json!({}));
    let (mut responses, mut refusals) = (Vec::new(), Vec::new());
    for id in &selection.ids {
        match context.send(Call::post(&["messages", id, action.verb], body.clone())).await {
            Ok(response) => responses.push(response),
            Err(error) if is_refusal(&error) => refusals.push(error),
            Err(error) => return Err(error),
        }
    }
    let refused = refusals.len();
    if let (true, Some(first)) = (responses.is_empty(), refusals.into_iter().next()) {
        return Err(first);
    }
    let requested =
        responses.iter().filter(|response| response["result"] == "requested").count() as u64;
    let applied = responses.len() as u64 - requested;
    let result = json!({
        "items": responses, "applied": applied, "requested": requested, "refused": refused,
    });
    context.print(&result, |result| action.summary(result))
}

fn is_refusal(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<CommandError>();
    error.is_some_and(|error| matches!(error.code, Code::Refused | Code::NotFound))
}

/// Runs a bulk action: counts by a dry run, asks for confirmation, then changes the messages.
pub(crate) async fn run_bulk(
    context: &CommandContext,
    action: &Action,
    (path, mut body): (&[&str], Value),
    dry_run: bool,
) -> Result<()> {
    body["dry_run"] = true.into();
    let planned = context.send(Call::post(path, body.clone())).await?;
    let count = planned["count"].as_u64().unwrap_or_default();
    let more = planned["more"].as_bool() == Some(true);
    if dry_run || count == 0 {
        return context.print(&planned, |_| action.dry_run(count, more));
    }
    context.confirm(&action.confirmation(count))?;
    body["dry_run"] = false.into();
    context.show(Call::post(path, body), |result| action.summary(result)).await
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
