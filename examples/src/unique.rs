//! Unique messages: while another one is alive, while it waits, or for a period.

use std::time::Duration;

use punctual::client::PublishResult;
use punctual::testing::TestHarness;

fn print(what: &str, published: PublishResult) {
    let word = if published.duplicate_of.is_some() { "a duplicate" } else { "accepted" };
    println!("{what}: {word}");
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    let harness = TestHarness::start(|builder| builder.handler("sync", async |(): ()| {})).await?;
    let publisher = harness.publisher();
    let (minute, hour) = (Duration::from_secs(60), Duration::from_secs(3_600));
    let sync = || publisher.publish("sync", &()).unique("customer 12");

    print("first", sync().after(minute).await?);
    print("while it is alive", sync().await?);
    harness.advance(minute).await;
    print("after it is done", sync().for_period(hour).await?);
    harness.advance(minute).await;
    print("within its hour", sync().await?);
    harness.advance(hour).await;
    print("after its hour", sync().await?);
    Ok(())
}

// Output:
// first: accepted
// while it is alive: a duplicate
// after it is done: accepted
// within its hour: a duplicate
// after its hour: accepted
