//! Correlation: messages that a handler publishes have the correlation of its message.

use punctual::testing::TestHarness;
use punctual::{Context, Publisher};

async fn order(id: u32, context: Context, publisher: Publisher) -> punctual::Result<()> {
    println!("order {id} belongs to {}", context.correlation());
    publisher.publish("mail", &id).await?;
    Ok(())
}

async fn mail(id: u32, context: Context) {
    println!("mail for {id} belongs to {}", context.correlation());
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    let harness =
        TestHarness::start(|builder| builder.handler("order", order).handler("mail", mail)).await?;
    harness.publisher().publish("order", &7).correlation("basket 12").await?;
    harness.run_due().await;
    Ok(())
}

// Output:
// order 7 belongs to basket 12
// mail for 7 belongs to basket 12
