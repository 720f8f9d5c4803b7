//! Moving the cursor of a job.

use anyhow::Result;
use clap::Args;
use punctual::jiff::Timestamp;
use serde_json::json;

use super::super::given::instant;
use crate::client::Call;
use crate::desk::Desk;
use crate::render::stamp;

/// Where to.
#[derive(Debug, Args)]
pub(super) struct Cursor {
    /// The job.
    name: String,
    /// Occurrences before this instant are decided about; those after it are still to come.
    #[arg(long, value_name = "INSTANT", value_parser = instant, allow_hyphen_values = true)]
    to: Timestamp,
}

pub(super) async fn cursor(desk: &Desk, cursor: &Cursor) -> Result<()> {
    let body = json!({ "to": cursor.to.to_string() });
    let call = Call::post(&["jobs", &cursor.name, "cursor"], body);
    desk.show(call, |job| {
        format!("The cursor of {} stands at {}.", cursor.name, stamp(&job["cursor"]))
    })
    .await
}
