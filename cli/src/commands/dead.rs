//! `punctual dead`: lists, groups, redrives and discards dead letters.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::messages::{Action, Filter, rows, run_bulk};
use super::paging::Paging;
use crate::client::Call;
use crate::command_context::{CommandContext, ConnectionArgs, run_command};
use crate::error::CommandError;
use crate::render::{Table, relative, short, word};

/// Arguments of `punctual dead`.
#[derive(Debug, Args)]
pub(crate) struct DeadArgs {
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(subcommand)]
    command: DeadCommand,
}

/// Commands about dead letters.
#[derive(Debug, Subcommand)]
enum DeadCommand {
    /// List dead letters, newest first.
    List(List),
    /// List groups of dead letters with the same error, largest first.
    Groups,
    /// Redrive dead letters; their attempts are counted from zero.
    Redrive(Selection),
    /// Delete dead letters with their history.
    Discard(Selection),
}

/// Filter of the list.
#[derive(Debug, Args)]
struct List {
    /// Only of this group, as `dead groups` lists it.
    #[arg(long)]
    group: Option<String>,
    /// Only of this topic.
    #[arg(long)]
    topic: Option<String>,
    /// Only of this queue.
    #[arg(long)]
    queue: Option<String>,
    /// Only of this job.
    #[arg(long)]
    job: Option<String>,
    /// Only messages that contain this text.
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    #[command(flatten)]
    paging: Paging,
}

/// Selection of dead letters: ids, a group, a filter, or all.
#[derive(Debug, Args)]
struct Selection {
    /// Ids of the messages.
    ids: Vec<String>,
    /// All dead letters of this group, as `dead groups` lists it.
    #[arg(long, conflicts_with_all = ["ids", "all"])]
    group: Option<String>,
    /// All dead letters.
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    #[command(flatten)]
    filter: Filter,
    /// Largest number of messages, newest first; 1 to 10000.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    limit: u32,
    /// Print how many messages match, without changing them.
    #[arg(long)]
    dry_run: bool,
    /// Reason for the audit log.
    #[arg(long)]
    reason: Option<String>,
}

/// Runs the command.
pub(crate) fn run(arguments: &DeadArgs) -> ExitCode {
    run_command(&arguments.connection, async |context| match &arguments.command {
        DeadCommand::List(args) => list(context, args).await,
        DeadCommand::Groups => groups(context).await,
        DeadCommand::Redrive(selection) => {
            act(context, "redrive", &Action::redrive(), selection).await
        }
        DeadCommand::Discard(selection) => {
            act(context, "discard", &Action::discard(), selection).await
        }
    })
}

async fn list(context: &CommandContext, list: &List) -> Result<()> {
    let call = Call::get(&["dead-letters"])
        .with("group", list.group.as_ref())
        .with("topic", list.topic.as_ref())
        .with("queue", list.queue.as_ref())
        .with("job", list.job.as_ref())
        .with("search", list.search.as_ref());
    context
        .list(list.paging.apply(call), "dead letters", |items| rows(items, context.client.now()))
        .await
}

async fn groups(context: &CommandContext) -> Result<()> {
    let call = Call::get(&["dead-letters", "groups"]);
    context
        .list(call, "dead letters", |items| {
            let now = context.client.now();
            let mut table = Table::new(&["group", "count", "of", "first", "latest", "error"]);
            for group in items {
                let of = if group["job"].is_null() { &group["topic"] } else { &group["job"] };
                table.row([
                    word(&group["fingerprint"]),
                    word(&group["count"]),
                    word(of),
                    relative(&group["first_at"], now),
                    relative(&group["last_at"], now),
                    short(&group["error"], 60),
                ]);
            }
            table
        })
        .await
}

async fn act(
    context: &CommandContext,
    verb: &str,
    action: &Action,
    selection: &Selection,
) -> Result<()> {
    let mut body = json!({ "limit": selection.limit });
    let filtered = !selection.filter.is_empty();
    match (&selection.group, selection.ids.is_empty(), filtered || selection.all) {
        (Some(group), true, false) => body["fingerprint"] = group.as_str().into(),
        (None, false, false) => body["ids"] = json!(selection.ids),
        (None, true, true) => body["filter"] = selection.filter.body(),
        (None, true, false) => {
            return Err(CommandError::invalid_input(format!(
                "no dead letters to {verb} are selected"
            ))
            .hint(
                "give ids, a --group of `punctual dead groups`, a filter such as --topic, or --all",
            )
            .into());
        }
        _ => {
            return Err(CommandError::invalid_input(
                "ids, --group and a filter exclude each other",
            )
            .hint("give only one of them")
            .into());
        }
    }
    if let Some(reason) = &selection.reason {
        body["note"] = Value::from(reason.as_str());
    }
    run_bulk(context, action, (&["dead-letters", verb], body), selection.dry_run).await
}
