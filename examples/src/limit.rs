//! A concurrency limit across all processes.

use std::sync::Arc;

use punctual::State;
use punctual::testing::TestHarness;
use tokio::sync::Semaphore;

/// Blocks each handler until the example opens it.
type Gate = Arc<Semaphore>;

async fn send(to: String, State(gate): State<Gate>) {
    println!("{to} begins");
    if let Ok(permit) = gate.acquire().await {
        permit.forget();
    }
    println!("{to} ends");
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    let gate = Gate::new(Semaphore::new(0));
    let harness =
        TestHarness::start(|builder| builder.state(gate.clone()).handler("send", send)).await?;
    for to in ["ada", "bob", "cleo"] {
        harness.publisher().publish("send", to).limit("smtp", 2).await?;
    }
    harness.run_due().await;
    println!("-- two in parallel, cleo waits");
    gate.add_permits(3);
    harness.run_due().await;
    Ok(())
}

// Output:
// ada begins
// bob begins
// -- two in parallel, cleo waits
// ada ends
// bob ends
// cleo begins
// cleo ends
