//! Testing an application: hours of retries in a moment, and what happened can be asked for.

use std::time::Duration;

use punctual::Retry;
use punctual::model::HandlerOptions;
use punctual::testing::TestHarness;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    let hour = Duration::from_secs(3_600);
    let handler_options = HandlerOptions::new().retry(Retry::intervals([hour; 6]));
    let rehearsal = TestHarness::start(|builder| {
        builder.handler_with("dunning", handler_options, async |_: String| Err::<(), _>("still not paid"))
    })
    .await?;
    rehearsal.publisher().publish("dunning", "invoice 7").await?;
    rehearsal.advance(6 * hour).await;
    rehearsal.assert_published("dunning", "invoice 7", 1);
    rehearsal.assert_executed("dunning", 7);
    rehearsal.assert_dead("dunning", 1);
    for execution in rehearsal.executions("dunning") {
        println!("{} {}", execution.ended_at.strftime("%H:%M"), execution.ending.as_str());
    }
    rehearsal.fail_next("dunning", 1, "as a test asked for");
    rehearsal.publisher().publish("dunning", "invoice 8").await?;
    rehearsal.run_due().await;
    println!("{}", rehearsal.executions("dunning")[7].note.as_deref().unwrap_or("-"));
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
// as a test asked for
