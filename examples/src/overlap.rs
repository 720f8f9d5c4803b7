//! The overlap policies: what happens to an occurrence while the previous run is still alive.

use std::sync::Arc;
use std::time::Duration;

use punctual::testing::TestHarness;
use punctual::{Context, Job, Occurrence, Overlap, State};
use tokio::sync::Semaphore;

/// Blocks each run until the example opens it.
type Gate = Arc<Semaphore>;

async fn sync(occurrence: Occurrence, State(gate): State<Gate>, context: Context) {
    let time = occurrence.nominal.strftime("%H:%M");
    println!("  {time} begins");
    tokio::select! {
        Ok(permit) = gate.acquire() => permit.forget(),
        cause = context.cancelled() => return println!("  {time} is cancelled: {cause:?}"),
    }
    println!("  {time} ends");
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    for overlap in [Overlap::Skip, Overlap::QueueOne, Overlap::CancelRunning] {
        println!("{overlap:?}:");
        let gate = Gate::new(Semaphore::new(0));
        let job = Job::cron("sync", "0 * * * *").overlap(overlap);
        let harness =
            TestHarness::start(|builder| builder.state(gate.clone()).job(job, sync)).await?;
        let harness = harness.timeout(Duration::ZERO);
        // The first run is still there when the next two are due.
        harness.advance(Duration::from_secs(3 * 3_600 + 600)).await;
        gate.add_permits(3);
        harness.run_due().await;
    }
    Ok(())
}

// Output:
// Skip:
//   08:00 begins
//   08:00 ends
// QueueOne:
//   08:00 begins
//   08:00 ends
//   09:00 begins
//   09:00 ends
// CancelRunning:
//   08:00 begins
//   08:00 is cancelled: Cancelled
//   09:00 begins
//   09:00 is cancelled: Cancelled
//   10:00 begins
//   10:00 ends
