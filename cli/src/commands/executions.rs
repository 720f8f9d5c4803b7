//! `punctual executions`: every attempt that ended.

use std::process::ExitCode;

use clap::Args;
use punctual::jiff::Timestamp;
use serde_json::Value;

use super::given::instant;
use super::paging::Paging;
use crate::client::Call;
use crate::desk::{Reach, at_desk};
use crate::render::{Table, away, short, stamp, took, word};

/// Which executions.
#[derive(Debug, Args)]
pub(crate) struct ExecutionsArgs {
    #[command(flatten)]
    reach: Reach,
    /// Only of this job.
    #[arg(long)]
    job: Option<String>,
    /// Only of this topic.
    #[arg(long)]
    topic: Option<String>,
    /// Only of this message.
    #[arg(long, value_name = "ID")]
    message: Option<String>,
    /// Only these endings, with commas between them, such as failed,lost.
    #[arg(long)]
    ending: Option<String>,
    /// Only those that ended at this instant or later.
    #[arg(long, value_name = "INSTANT", value_parser = instant, allow_hyphen_values = true)]
    since: Option<Timestamp>,
    /// Only those that ended before this instant.
    #[arg(long, value_name = "INSTANT", value_parser = instant, allow_hyphen_values = true)]
    until: Option<Timestamp>,
    #[command(flatten)]
    paging: Paging,
}

/// Lists them.
pub(crate) fn run(arguments: &ExecutionsArgs) -> ExitCode {
    at_desk(&arguments.reach, async |desk| {
        let call = Call::get(&["executions"])
            .with("job", arguments.job.as_ref())
            .with("topic", arguments.topic.as_ref())
            .with("message", arguments.message.as_ref())
            .with("ending", arguments.ending.as_ref())
            .with("since", arguments.since)
            .with("until", arguments.until);
        desk.list(arguments.paging.on(call), "executions", |items| rows(items, desk.client.now()))
            .await
    })
}

/// Executions, one on a line.
pub(crate) fn rows(items: &[Value], now: Timestamp) -> Table {
    let mut table =
        Table::new(&["ended", "when", "of", "ending", "attempt", "took", "waited", "note"]);
    for one in items {
        let of = if one["job"].is_null() { &one["topic"] } else { &one["job"] };
        let attempt = match (one["attempt"].as_u64(), one["attempts_max"].as_u64()) {
            (Some(0) | None, _) => "-".to_owned(),
            (Some(attempt), Some(max)) => format!("{attempt}/{max}"),
            (Some(attempt), None) => attempt.to_string(),
        };
        let note = if one["note"].is_null() { &one["reason"] } else { &one["note"] };
        table.row([
            stamp(&one["ended_at"]),
            away(&one["ended_at"], now),
            word(of),
            word(&one["ending"]),
            attempt,
            took(&one["took_ms"]),
            took(&one["waited_ms"]),
            short(note, 60),
        ]);
    }
    table
}
