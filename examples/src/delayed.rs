//! A delayed message: due after a duration, or at an instant.

use std::time::Duration;

use punctual::Context;
use punctual::testing::{TestHarness, START};

async fn remind(about: String, context: Context) {
    println!("{}: {about}", context.started_at());
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    let harness = TestHarness::start(|builder| builder.handler("remind", remind)).await?;
    let publisher = harness.publisher();
    let hour = Duration::from_secs(3_600);
    publisher.publish("remind", "in a day").after(24 * hour).await?;
    publisher.publish("remind", "in an hour").at(START + hour).await?;
    publisher.publish("remind", "now").await?;
    harness.advance(24 * hour).await;

    if let Err(refused) = publisher.publish("remind", "yesterday").at(START).await {
        println!("{refused}");
    }
    Ok(())
}

// Output:
// 2026-03-02T07:00:00Z: now
// 2026-03-02T08:00:00Z: in an hour
// 2026-03-03T07:00:00Z: in a day
// the instant 2026-03-02T07:00:00Z is in the past (it is 2026-03-03T07:00:00Z); give a later one, or allow_past() to run it immediately
