//! `punctual prune` and `punctual migrate`: upkeep of a storage by hand.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use punctual::clock::{Clock, SystemClock, subtract};
use punctual::schedule::parse_duration;
use punctual::storage::{Prune, PruneResult};
use punctual_connect::Address;
use serde_json::json;

use super::storage::{StorageArgs, existing, on_runtime, open};
use super::transfer::bar;
use crate::desk::{confirm, line};
use crate::render::counted;

/// The most rows of each kind that are deleted in one step.
const BATCH: usize = 1_000;

/// What is too old.
#[derive(Debug, Args)]
pub(crate) struct PruneArgs {
    #[command(flatten)]
    storage: StorageArgs,
    /// What ended longer ago than this, such as 30d.
    #[arg(long, value_name = "LENGTH", value_parser = parse_duration)]
    older_than: Duration,
    /// Delete dead letters as well; otherwise they are kept for people.
    #[arg(long)]
    dead: bool,
    /// Answer as JSON.
    #[arg(long)]
    json: bool,
    /// Do not ask before deleting.
    #[arg(long, short = 'y')]
    yes: bool,
}

/// Which storage.
#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    #[command(flatten)]
    storage: StorageArgs,
}

/// Deletes step by step, so that others get their turn.
pub(crate) fn run(arguments: &PruneArgs) -> ExitCode {
    on_runtime(async {
        let address = existing(&arguments.storage.address)?;
        let before = subtract(SystemClock.now(), arguments.older_than);
        let what = if arguments.dead { ", dead letters included" } else { "" };
        let at = before.strftime("%Y-%m-%d %H:%M:%SZ");
        confirm(&format!("Delete everything that ended before {at}{what}"), arguments.yes)?;
        let opened = open(&address).await?;
        let progress = bar(None);
        let mut all = PruneResult::default();
        loop {
            let prune = Prune { before, limit: BATCH, dead: arguments.dead };
            let pruned = opened.storage.prune(prune, SystemClock.now()).await?;
            all.messages += pruned.messages;
            all.executions += pruned.executions;
            progress.inc(pruned.messages + pruned.executions);
            if pruned.messages.max(pruned.executions) < BATCH as u64 {
                break;
            }
        }
        progress.finish_and_clear();
        opened.close().await?;
        if arguments.json {
            return line(
                &json!({ "messages": all.messages, "executions": all.executions }).to_string(),
            );
        }
        let (messages, executions) =
            (counted(all.messages, "message"), counted(all.executions, "execution"));
        line(&format!("Deleted {messages} and {executions}."))
    })
}

/// Opens it, which makes what is missing.
pub(crate) fn run_migrate(arguments: &MigrateArgs) -> ExitCode {
    on_runtime(async {
        let address = Address::parse(&arguments.storage.address)?;
        let opened = open(&address).await?;
        let checkup = opened.check().await?;
        opened.close().await?;
        let schema = checkup.facts.iter().find(|(what, _)| what.contains("schema"));
        let version = schema.map_or(String::new(), |(what, found)| format!(" ({what} {found})"));
        line(&format!("{address:?} is up to date{version}."))
    })
}
