//! Testing an application: hours of retries in a moment, and assertions on what happened.

use std::time::Duration;

use punctual::Retry;
use punctual::model::HandlerOptions;
use punctual::testing::TestHarness;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    let hour = Duration::from_secs(3_600);
    let handler_options = HandlerOptions::new().retry(Retry::intervals([hour; 6]));
    let harness = TestHarness::start(|builder| {
        builder.handler_with("dunning", handler_options, async |_: String| Err::<(), _>("still not paid"))
    })
    .await?;
    harness.publisher().publish("dunning", "invoice 7").await?;
    harness.advance(6 * hour).await;
    harness.assert_published("dunning", "invoice 7", 1);
    harness.assert_executed("dunning", 7);
    harness.assert_dead("dunning", 1);
    for execution in harness.executions("dunning") {
        println!("{} {}", execution.ended_at.strftime("%H:%M"), execution.ending.as_str());
    }
    harness.fail_next("dunning", 1, "failed by the test");
    harness.publisher().publish("dunning", "invoice 8").await?;
    harness.run_due().await;
    println!("{}", harness.executions("dunning")[7].note.as_deref().unwrap_or("-"));
    Ok(())
}

// Output:
// 07:00 failed
// 08:00 failed
// 09:00 failed
// 10:00 failed
// 11:00 failed
// 12:00 failed
// 13:00 failed
// failed by the test
