//! Events: always counted, passed to hooks without a gap, and streamed to subscribers.

use std::time::Duration;

use punctual::testing::TestHarness;
use punctual::{Context, Event};

async fn mail(_: String, context: Context) -> Result<(), &'static str> {
    if context.attempt() == 1 { Err("no route") } else { Ok(()) }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    let harness = TestHarness::start(|builder| {
        let hook = |event: &Event| {
            if let Event::AttemptFailed { attempt, error: Some(error), .. } = event {
                println!("immediately: attempt {attempt}, {error}");
            }
        };
        builder.on_event(hook).handler("mail", mail)
    })
    .await?;
    let mut stream = harness.events().listen();
    harness.publisher().publish("mail", "ada").await?;
    harness.advance(Duration::from_secs(60)).await;
    while let Ok(event) = stream.try_recv() {
        println!("streamed: {}", event.name());
    }
    for (name, count) in harness.events().counts().filter(|(name, _)| name.starts_with("attempt")) {
        println!("counted: {name} {count}");
    }
    Ok(())
}

// Output:
// immediately: attempt 1, no route
// streamed: message.enqueued
// streamed: attempt.started
// streamed: attempt.failed
// streamed: attempt.started
// streamed: attempt.succeeded
// counted: attempt.started 2
// counted: attempt.succeeded 1
// counted: attempt.failed 1
// counted: attempt.timed_out 0
// counted: attempt.ended_early 0
// counted: attempt.lost 0
// counted: attempt.error_after_settle 0
// counted: attempt.progressed 0
