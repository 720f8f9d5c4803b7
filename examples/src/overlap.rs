//! What happens to an occurrence while the run before is still alive.

use std::sync::Arc;
use std::time::Duration;

use punctual::testing::TestHarness;
use punctual::{Context, Job, Occurrence, Overlap, State};
use tokio::sync::Semaphore;

/// Where a run waits for the outside world.
type Door = Arc<Semaphore>;

async fn sync(occurrence: Occurrence, State(door): State<Door>, context: Context) {
    let time = occurrence.nominal.strftime("%H:%M");
    println!("  {time} begins");
    tokio::select! {
        Ok(permit) = door.acquire() => permit.forget(),
        cause = context.cancelled() => return println!("  {time} is told to stop: {cause:?}"),
    }
    println!("  {time} ends");
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    for overlap in [Overlap::Skip, Overlap::QueueOne, Overlap::CancelRunning] {
        println!("{overlap:?}:");
        let door = Door::new(Semaphore::new(0));
        let job = Job::cron("sync", "0 * * * *").overlap(overlap);
        let rehearsal =
            TestHarness::start(|builder| builder.state(door.clone()).job(job, sync)).await?;
        let rehearsal = rehearsal.timeout(Duration::ZERO);
        // The first run is still there when the next two are due.
        rehearsal.advance(Duration::from_secs(3 * 3_600 + 600)).await;
        door.add_permits(3);
        rehearsal.run_due().await;
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
//   08:00 is told to stop: Cancelled
//   09:00 begins
//   09:00 is told to stop: Cancelled
//   10:00 begins
//   10:00 ends
