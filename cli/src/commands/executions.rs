//! `punctual executions`: lists finished attempts.

use std::process::ExitCode;

use clap::Args;
use punctual::jiff::Timestamp;
use serde_json::Value;

use super::input::instant;
use super::paging::Paging;
use crate::client::Call;
use crate::command_context::{ConnectionArgs, run_command};
use crate::render::{Table, duration_of, relative, short, stamp, word};

/// Filter of the list.
#[derive(Debug, Args)]
pub(crate) struct ExecutionsArgs {
    #[command(flatten)]
    connection: ConnectionArgs,
    /// Only of this job.
    #[arg(long)]
    job: Option<String>,
    /// Only of this topic.
    #[arg(long)]
    topic: Option<String>,
    /// Only of this message.
    #[arg(long, value_name = "ID")]
    message: Option<String>,
    /// Only with these endings, separated by commas, such as failed,lost.
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

/// Lists the executions.
pub(crate) fn run(arguments: &ExecutionsArgs) -> ExitCode {
    run_command(&arguments.connection, async |context| {
        let call = Call::get(&["executions"])
            .with("job", arguments.job.as_ref())
            .with("topic", arguments.topic.as_ref())
            .with("message", arguments.message.as_ref())
            .with("ending", arguments.ending.as_ref())
            .with("since", arguments.since)
            .with("until", arguments.until);
        context
            .list(arguments.paging.apply(call), "executions", |items| {
                rows(items, context.client.now())
            })
            .await
    })
}

/// Returns the table of executions.
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
            relative(&one["ended_at"], now),
            word(of),
            word(&one["ending"]),
            attempt,
            duration_of(&one["took_ms"]),
            duration_of(&one["waited_ms"]),
            short(note, 60),
        ]);
    }
    table
}
