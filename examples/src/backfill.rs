//! Backfill: past occurrences are run, each with its nominal time; first as a dry run.

use std::time::Duration;

use punctual::client::Backfill;
use punctual::testing::{TestHarness, START};
use punctual::{Job, Occurrence};

async fn report(occurrence: Occurrence) {
    println!("the report of {}", occurrence.nominal);
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    let day = Duration::from_secs(24 * 3_600);
    let harness =
        TestHarness::start(|builder| builder.job(Job::cron("report", "0 2 * * *"), report)).await?;
    let (admin, from) = (harness.admin(), START - 3 * day);
    let dry = Backfill { dry_run: true, ..Backfill::default() };
    let planned = admin.backfill("report", from, START, &dry).await?;
    println!("{} would run", planned.nominals.len());
    let run = admin.backfill("report", from, START, &Backfill::default()).await?;
    println!("{} are stored", run.stored.len());
    harness.advance(Duration::from_secs(1)).await;
    let again = admin.backfill("report", from, START, &Backfill::default()).await?;
    println!("{} more, {} are there already", again.stored.len(), again.present);
    Ok(())
}

// Output:
// 3 would run
// 3 are stored
// the report of 2026-02-28T02:00:00Z
// the report of 2026-03-01T02:00:00Z
// the report of 2026-03-02T02:00:00Z
// 0 more, 3 are there already
