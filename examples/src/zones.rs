//! Schedules in time zones: a fixed time runs once on the days the clocks change.

use std::time::Duration;

use punctual::jiff::Timestamp;
use punctual::testing::TestHarness;
use punctual::{Error, Job, Occurrence};

async fn print(occurrence: Occurrence) {
    println!("{}", occurrence.nominal);
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    // On the 29th of March 2026, Warsaw has no 02:30.
    let begin: Timestamp = "2026-03-29T00:00:00Z".parse().map_err(|_| Error::invalid("no instant"))?;
    let job = Job::cron("night", "30 2 * * *").zone("Europe/Warsaw");
    let harness = TestHarness::start_at(begin, |builder| builder.job(job, print)).await?;
    harness.advance(Duration::from_secs(25 * 3_600)).await;
    Ok(())
}

// Output:
// 2026-03-29T01:00:00Z
// 2026-03-30T00:30:00Z
