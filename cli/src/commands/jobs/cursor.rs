//! Cursor of a job: the instant up to which its occurrences are scheduled.

use anyhow::Result;
use clap::Args;
use punctual::jiff::Timestamp;
use serde_json::json;

use super::super::input::instant;
use crate::client::Call;
use crate::command_context::CommandContext;
use crate::render::stamp;

/// Arguments of `jobs cursor`.
#[derive(Debug, Args)]
pub(super) struct Cursor {
    /// Name of the job.
    name: String,
    /// New cursor; occurrences after it are still to be scheduled.
    #[arg(long, value_name = "INSTANT", value_parser = instant, allow_hyphen_values = true)]
    to: Timestamp,
}

pub(super) async fn cursor(context: &CommandContext, cursor: &Cursor) -> Result<()> {
    let body = json!({ "to": cursor.to.to_string() });
    let call = Call::post(&["jobs", &cursor.name, "cursor"], body);
    context
        .show(call, |job| format!("The cursor of {} is {}.", cursor.name, stamp(&job["cursor"])))
        .await
}
