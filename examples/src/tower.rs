//! Layers of tower around attempts: here, too much at once is put off.

use std::sync::Arc;
use std::time::Duration;

use punctual::testing::TestHarness;
use punctual::{Outcome, State};
use punctual_tower::layered;
use tokio::sync::Semaphore;
use tower::ServiceBuilder;
use tower::load_shed::error::Overloaded;

/// Where a handler waits for the outside world.
type Door = Arc<Semaphore>;

async fn call(number: u32, State(door): State<Door>) {
    println!("call {number}");
    if let Ok(permit) = door.acquire().await {
        permit.forget();
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    let (door, minute) = (Door::new(Semaphore::new(0)), Duration::from_secs(60));
    let rehearsal = TestHarness::start(|builder| {
        builder
            .middleware(layered(ServiceBuilder::new().load_shed().concurrency_limit(1)))
            .on_error(move |_: &Overloaded| Some(Outcome::Snooze(minute)))
            .state(door.clone())
            .handler("call", call)
    })
    .await?;
    for number in 1..=2 {
        rehearsal.publisher().publish("call", &number).await?;
    }
    rehearsal.run_due().await;
    door.add_permits(2);
    rehearsal.advance(minute).await;
    for execution in rehearsal.executions("call") {
        println!("{}", execution.ending.as_str());
    }
    Ok(())
}

// Output:
// call 1
// call 2
// succeeded
// snoozed
// succeeded
