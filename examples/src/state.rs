//! Shared state of handlers, by its type. A missing one is found by `build()`, not by the first message.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual::testing::TestHarness;
use punctual::{Punctual, State};

#[derive(Clone, Default)]
struct Stock(Arc<AtomicU64>);

async fn deliver(boxes: u64, State(stock): State<Stock>) {
    println!("{} in stock", stock.0.fetch_add(boxes, Ordering::Relaxed) + boxes);
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    let stock = Stock::default();
    let harness =
        TestHarness::start(|builder| builder.state(stock.clone()).handler("deliver", deliver));
    let harness = harness.await?;
    for boxes in [3, 4] {
        harness.publisher().publish("deliver", &boxes).await?;
    }
    harness.run_due().await;
    println!("{} outside as well", stock.0.load(Ordering::Relaxed));

    let forgotten = Punctual::builder().handler("deliver", deliver).build();
    println!("built without it: {}", forgotten.is_ok());
    Ok(())
}

// Output:
// 3 in stock
// 7 in stock
// 7 outside as well
// built without it: false
