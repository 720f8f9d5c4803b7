//! A failed attempt is retried by the policy of its handler, and finally stored as a dead letter.

use std::time::Duration;

use punctual::model::HandlerOptions;
use punctual::testing::TestHarness;
use punctual::{Context, Retry};

async fn charge(order: u32, context: Context) -> Result<(), String> {
    println!("{}: order {order}, attempt {}", context.started_at(), context.attempt());
    if order == 7 && context.attempt() == 3 { Ok(()) } else { Err("the bank is closed".to_owned()) }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    let waits = [10, 60].map(Duration::from_secs);
    let handler_options = HandlerOptions::new().retry(Retry::intervals(waits));
    let harness =
        TestHarness::start(|builder| builder.handler_with("charge", handler_options, charge)).await?;
    harness.publisher().publish("charge", &7).await?;
    harness.advance(Duration::from_secs(70)).await;
    harness.publisher().publish("charge", &8).await?;
    harness.advance(Duration::from_secs(70)).await;
    for dead in harness.dead("charge") {
        println!("dead: {}", dead.error.as_deref().unwrap_or_default());
    }
    Ok(())
}

// Output:
// 2026-03-02T07:00:00Z: order 7, attempt 1
// 2026-03-02T07:00:10Z: order 7, attempt 2
// 2026-03-02T07:01:10Z: order 7, attempt 3
// 2026-03-02T07:01:10Z: order 8, attempt 1
// 2026-03-02T07:01:20Z: order 8, attempt 2
// 2026-03-02T07:02:20Z: order 8, attempt 3
// dead: the bank is closed
