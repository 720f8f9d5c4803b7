//! Expiry: a message that is too late to be useful is not started.

use std::time::Duration;

use punctual::testing::TestHarness;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    let print = async |what: String| println!("{what}");
    let harness = TestHarness::start(|builder| builder.handler("print", print)).await?;
    let (minute, publisher) = (Duration::from_secs(60), harness.publisher());
    for (what, useful) in [("the train leaves", minute), ("the market is on", 60 * minute)] {
        publisher.publish("print", what).after(minute).expires_after(useful).await?;
    }
    // No process runs until half an hour after their due time.
    harness.clock().advance(31 * minute);
    harness.run_due().await;
    for execution in harness.executions("print") {
        println!("{}", execution.ending.as_str());
    }
    Ok(())
}

// Output:
// the market is on
// skipped
// succeeded
