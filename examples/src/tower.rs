//! Layers of tower around attempts: here, excess load is postponed.

use std::sync::Arc;
use std::time::Duration;

use punctual::testing::TestHarness;
use punctual::{Outcome, State};
use punctual_tower::layered;
use tokio::sync::Semaphore;
use tower::ServiceBuilder;
use tower::load_shed::error::Overloaded;

/// Blocks each handler until the example opens it.
type Gate = Arc<Semaphore>;

async fn call(number: u32, State(gate): State<Gate>) {
    println!("call {number}");
    if let Ok(permit) = gate.acquire().await {
        permit.forget();
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    let (gate, minute) = (Gate::new(Semaphore::new(0)), Duration::from_secs(60));
    let harness = TestHarness::start(|builder| {
        builder
            .middleware(layered(ServiceBuilder::new().load_shed().concurrency_limit(1)))
            .on_error(move |_: &Overloaded| Some(Outcome::Snooze(minute)))
            .state(gate.clone())
            .handler("call", call)
    })
    .await?;
    for number in 1..=2 {
        harness.publisher().publish("call", &number).await?;
    }
    harness.run_due().await;
    gate.add_permits(2);
    harness.advance(minute).await;
    for execution in harness.executions("call") {
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
