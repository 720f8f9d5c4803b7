//! `punctual dead`: dead letters, in groups of the same failure, and sending them again or throwing them
//! away.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::messages::{Deed, Filter, rows, sweep};
use super::paging::Paging;
use crate::client::Call;
use crate::desk::{Desk, Reach, at_desk};
use crate::failure::Failure;
use crate::render::{Table, away, short, word};

/// Dead letters: what was given up.
#[derive(Debug, Args)]
pub(crate) struct DeadArgs {
    #[command(flatten)]
    reach: Reach,
    #[command(subcommand)]
    command: DeadCommand,
}

/// What to do with dead letters.
#[derive(Debug, Subcommand)]
enum DeadCommand {
    /// Dead letters, newest first.
    List(List),
    /// Groups of the same failure, the largest first.
    Groups,
    /// Send dead letters again; their attempts start anew.
    Redrive(Chosen),
    /// Delete dead letters, with their history.
    Discard(Chosen),
}

/// Which dead letters.
#[derive(Debug, Args)]
struct List {
    /// Only of this group; `dead groups` names them.
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
    /// Only where a text of the message holds this.
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    #[command(flatten)]
    paging: Paging,
}

/// Which dead letters: ids, a group, a filter, or all.
#[derive(Debug, Args)]
struct Chosen {
    /// The messages.
    ids: Vec<String>,
    /// All of a group; `dead groups` names them.
    #[arg(long, conflicts_with_all = ["ids", "all"])]
    group: Option<String>,
    /// All there are.
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    #[command(flatten)]
    filter: Filter,
    /// At most so many, newest first; 1 to 10000.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    limit: u32,
    /// Only say how many it would be about.
    #[arg(long)]
    dry_run: bool,
    /// Why, for the audit trail.
    #[arg(long)]
    reason: Option<String>,
}

/// Runs one of them.
pub(crate) fn run(arguments: &DeadArgs) -> ExitCode {
    at_desk(&arguments.reach, async |desk| match &arguments.command {
        DeadCommand::List(wanted) => list(desk, wanted).await,
        DeadCommand::Groups => groups(desk).await,
        DeadCommand::Redrive(chosen) => act(desk, "redrive", &Deed::redrive(), chosen).await,
        DeadCommand::Discard(chosen) => act(desk, "discard", &Deed::discard(), chosen).await,
    })
}

async fn list(desk: &Desk, list: &List) -> Result<()> {
    let call = Call::get(&["dead-letters"])
        .with("group", list.group.as_ref())
        .with("topic", list.topic.as_ref())
        .with("queue", list.queue.as_ref())
        .with("job", list.job.as_ref())
        .with("search", list.search.as_ref());
    desk.list(list.paging.on(call), "dead letters", |items| rows(items, desk.client.now())).await
}

async fn groups(desk: &Desk) -> Result<()> {
    let call = Call::get(&["dead-letters", "groups"]);
    desk.list(call, "dead letters", |items| {
        let now = desk.client.now();
        let mut table = Table::new(&["group", "count", "of", "first", "latest", "error"]);
        for group in items {
            let of = if group["job"].is_null() { &group["topic"] } else { &group["job"] };
            table.row([
                word(&group["fingerprint"]),
                word(&group["count"]),
                word(of),
                away(&group["first_at"], now),
                away(&group["last_at"], now),
                short(&group["error"], 60),
            ]);
        }
        table
    })
    .await
}

async fn act(desk: &Desk, action: &str, deed: &Deed, chosen: &Chosen) -> Result<()> {
    let mut body = json!({ "limit": chosen.limit });
    let filtered = !chosen.filter.is_empty();
    match (&chosen.group, chosen.ids.is_empty(), filtered || chosen.all) {
        (Some(group), true, false) => body["fingerprint"] = group.as_str().into(),
        (None, false, false) => body["ids"] = json!(chosen.ids),
        (None, true, true) => body["filter"] = chosen.filter.body(),
        (None, true, false) => {
            return Err(Failure::wrong(format!("nothing says which dead letters to {action}"))
                .hint("name ids, a --group of `punctual dead groups`, a filter such as --topic, or --all")
                .into());
        }
        _ => {
            return Err(Failure::wrong("ids, --group and a filter are given together")
                .hint("give only one of them")
                .into());
        }
    }
    if let Some(reason) = &chosen.reason {
        body["note"] = Value::from(reason.as_str());
    }
    sweep(desk, deed, (&["dead-letters", action], body), chosen.dry_run).await
}
