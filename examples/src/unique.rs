//! Once: while another one is alive, while it waits, or for a span of time.

use std::time::Duration;

use punctual::client::PublishResult;
use punctual::testing::TestHarness;

fn tell(what: &str, published: PublishResult) {
    let word = if published.duplicate_of.is_some() { "a duplicate" } else { "accepted" };
    println!("{what}: {word}");
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    let rehearsal = TestHarness::start(|builder| builder.handler("sync", async |(): ()| {})).await?;
    let publisher = rehearsal.publisher();
    let (minute, hour) = (Duration::from_secs(60), Duration::from_secs(3_600));
    let sync = || publisher.publish("sync", &()).unique("customer 12");

    tell("first", sync().after(minute).await?);
    tell("while it is alive", sync().await?);
    rehearsal.advance(minute).await;
    tell("after it is done", sync().for_period(hour).await?);
    rehearsal.advance(minute).await;
    tell("within its hour", sync().await?);
    rehearsal.advance(hour).await;
    tell("after its hour", sync().await?);
    Ok(())
}

// Output:
// first: accepted
// while it is alive: a duplicate
// after it is done: accepted
// within its hour: a duplicate
// after its hour: accepted
