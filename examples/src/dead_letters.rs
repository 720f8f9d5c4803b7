//! Dead letters are kept for operators, who redrive them when the cause is fixed.

use std::sync::atomic::{AtomicBool, Ordering};

use punctual::Retry;
use punctual::inspect::{MessageFilter, PageRequest};
use punctual::model::{MessageState, HandlerOptions, Topic};
use punctual::testing::TestHarness;

static BANK_IS_OPEN: AtomicBool = AtomicBool::new(false);

async fn charge(order: u32) -> Result<(), &'static str> {
    if !BANK_IS_OPEN.load(Ordering::Relaxed) {
        return Err("the bank is closed");
    }
    println!("order {order} is paid");
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    let once = HandlerOptions::new().retry(Retry::none());
    let harness = TestHarness::start(|builder| builder.handler_with("charge", once, charge)).await?;
    for order in 1..=3 {
        harness.publisher().publish("charge", &order).await?;
    }
    harness.run_due().await;
    let admin = harness.admin();
    for dead_letter in admin.dead_letters(PageRequest::first(2)).await?.rows {
        println!("dead after {}: {}", dead_letter.attempt, dead_letter.error.as_deref().unwrap_or("-"));
    }
    BANK_IS_OPEN.store(true, Ordering::Relaxed);
    let topic = Some(Topic::new("charge")?);
    let filter = MessageFilter { states: vec![MessageState::Dead], topic, ..MessageFilter::default() };
    println!("{} to send again", admin.count(&filter).await?.count);
    println!("{} sent", admin.redrive_all(filter, 100).await?.applied);
    harness.run_due().await;
    Ok(())
}

// Output:
// dead after 1: the bank is closed
// dead after 1: the bank is closed
// 3 to send again
// 3 sent
// order 1 is paid
// order 2 is paid
// order 3 is paid
