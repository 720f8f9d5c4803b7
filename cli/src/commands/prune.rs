//! `punctual prune` and `punctual migrate`: manual maintenance of a storage.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use punctual::backend::storage::{Prune, PruneResult};
use punctual::clock::{Clock, SystemClock, subtract};
use punctual::schedule::parse_duration;
use punctual_backends::Address;
use serde_json::json;

use super::storage::{StorageArgs, existing, on_runtime, open};
use super::transfer::progress_bar;
use crate::command_context::{confirm, print_line};
use crate::render::counted;

/// Largest number of rows of each kind that are deleted in one transaction.
const BATCH: usize = 1_000;

/// Arguments of `punctual prune`.
#[derive(Debug, Args)]
pub(crate) struct PruneArgs {
    #[command(flatten)]
    storage: StorageArgs,
    /// Delete what ended longer ago than this, such as 30d.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    older_than: Duration,
    /// Delete dead letters as well.
    #[arg(long)]
    dead: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Delete without asking for confirmation.
    #[arg(long, short = 'y')]
    yes: bool,
}

/// Arguments of `punctual migrate`.
#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    #[command(flatten)]
    storage: StorageArgs,
}

/// Deletes in batches, so that other writers are not blocked for long.
pub(crate) fn run(arguments: &PruneArgs) -> ExitCode {
    on_runtime(async {
        let address = existing(&arguments.storage.address)?;
        let before = subtract(SystemClock.now(), arguments.older_than);
        let note = if arguments.dead { ", dead letters included" } else { "" };
        let at = before.strftime("%Y-%m-%d %H:%M:%SZ");
        confirm(&format!("Delete everything that ended before {at}{note}"), arguments.yes)?;
        let opened = open(&address).await?;
        let progress = progress_bar(None);
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
            return print_line(
                &json!({ "messages": all.messages, "executions": all.executions }).to_string(),
            );
        }
        let (messages, executions) =
            (counted(all.messages, "message"), counted(all.executions, "execution"));
        print_line(&format!("Deleted {messages} and {executions}."))
    })
}

/// Opens the storage, which creates or updates its tables.
pub(crate) fn run_migrate(arguments: &MigrateArgs) -> ExitCode {
    on_runtime(async {
        let address = Address::parse(&arguments.storage.address)?;
        let opened = open(&address).await?;
        let checkup = opened.check().await?;
        opened.close().await?;
        let schema = checkup.facts.iter().find(|(what, _)| what.contains("schema"));
        let version = schema.map_or(String::new(), |(what, found)| format!(" ({what} {found})"));
        print_line(&format!("{address:?} is up to date{version}."))
    })
}
