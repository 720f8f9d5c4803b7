//! The misfire policies: what a job does about occurrences missed while no process ran.

use std::time::Duration;

use punctual::testing::TestHarness;
use punctual::{Context, Job, Misfire, Occurrence};

async fn report(occurrence: Occurrence, context: Context) {
    let time = occurrence.nominal.strftime("%H:%M");
    let missed = context.misfire().map_or(0, |facts| facts.missed_count);
    println!("  the report of {time}, for {missed} missed");
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    for (name, misfire) in [
        ("fire now", Misfire::fire_now()),
        ("fire once", Misfire::fire_once()),
        ("fire all", Misfire::fire_all()),
        ("skip to next", Misfire::skip_to_next()),
    ] {
        let job = Job::cron("report", "0 * * * *").misfire(misfire);
        let harness = TestHarness::start(|builder| builder.job(job, report)).await?;
        // An outage: the clock moves, and no process runs meanwhile.
        harness.clock().advance(Duration::from_secs(3 * 3_600 + 1_800));
        println!("{name}:");
        harness.run_due().await;
    }
    Ok(())
}

// Output:
// fire now:
//   the report of 08:00, for 3 missed
// fire once:
//   the report of 10:00, for 3 missed
// fire all:
//   the report of 08:00, for 3 missed
//   the report of 09:00, for 3 missed
//   the report of 10:00, for 3 missed
// skip to next:
