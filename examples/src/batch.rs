//! A batch: messages sent together, and a message sent when the last of them has ended.

use punctual::model::{MessageState, HandlerOptions};
use punctual::testing::TestHarness;
use punctual::{Context, Retry};

async fn render(page: u32) -> Result<(), String> {
    if page == 3 { Err("the ink is out".to_owned()) } else { Ok(()) }
}

async fn bind(book: String, context: Context) -> punctual::Result<()> {
    let counts = context.batch_counts().await?;
    let count = |state| counts.get(&state).copied().unwrap_or(0);
    println!("{book}: {} pages, {} missing", count(MessageState::Done), count(MessageState::Dead));
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    let once = HandlerOptions::new().retry(Retry::none());
    let harness = TestHarness::start(|builder| {
        builder.handler_with("render", once, render).handler("bind", bind)
    })
    .await?;
    let publisher = harness.publisher();
    let pages = (1..=5).map(|page| publisher.publish("render", &page));
    let batch = publisher.batch(pages).then(publisher.publish("bind", "the book")).await?;
    println!("{} messages in one step", batch.members.len());
    harness.run_due().await;
    Ok(())
}

// Output:
// 5 messages in one step
// the book: 4 pages, 1 missing
