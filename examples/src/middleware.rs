//! Middleware around every publish and every attempt.

use async_trait::async_trait;
use punctual::testing::TestHarness;
use punctual::{
    Context, HandlerResult, Message, Middleware, NextHandle, NextPublish, Result,
};

/// Adds a header to every message, and prints the result of every attempt.
struct StampMiddleware;

#[async_trait]
impl Middleware for StampMiddleware {
    async fn around_publish(&self, mut message: Message, next: NextPublish<'_>) -> Result<()> {
        message.headers.insert("stamp", "7:00")?;
        next.run(message).await
    }

    async fn around_handle(&self, context: Context, next: NextHandle<'_>) -> HandlerResult {
        println!("stamped {}", context.headers().get("stamp").unwrap_or("never"));
        let result = next.run(context).await;
        println!("it is {result:?}");
        result
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<()> {
    let harness = TestHarness::start(|builder| {
        builder.middleware(StampMiddleware).handler("mail", async |to: String| println!("to {to}"))
    })
    .await?;
    harness.publisher().publish("mail", "ada").await?;
    harness.run_due().await;
    Ok(())
}

// Output:
// stamped 7:00
// to ada
// it is Ok(Done)
