//! A serial queue: messages are handled one after the other, in order, also on two processes.

use std::time::Duration;

use punctual::Context;
use punctual::testing::TestHarness;

async fn book(entry: u32, context: Context) -> punctual::Result<()> {
    println!("entry {entry}, beside {}", context.others_running().await?);
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    let one = TestHarness::start(|builder| builder.serial_queue("ledger").handler("book", book));
    let one = one.await?;
    let two = one.another(|builder| builder.serial_queue("ledger").handler("book", book)).await?;
    for entry in 1..=4 {
        one.publisher().publish("book", &entry).queue("ledger").await?;
    }
    one.advance(Duration::from_secs(1)).await;
    two.run_due().await;
    Ok(())
}

// Output:
// entry 1, beside 0
// entry 2, beside 0
// entry 3, beside 0
// entry 4, beside 0
