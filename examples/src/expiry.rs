//! Work that is too late to be useful is not begun.

use std::time::Duration;

use punctual::testing::TestHarness;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    let tell = async |what: String| println!("{what}");
    let rehearsal = TestHarness::start(|builder| builder.handler("tell", tell)).await?;
    let (minute, publisher) = (Duration::from_secs(60), rehearsal.publisher());
    for (what, useful) in [("the train leaves", minute), ("the market is on", 60 * minute)] {
        publisher.publish("tell", what).after(minute).expires_after(useful).await?;
    }
    // Nobody is awake until half an hour after their time.
    rehearsal.clock().advance(31 * minute);
    rehearsal.run_due().await;
    for execution in rehearsal.executions("tell") {
        println!("{}", execution.ending.as_str());
    }
    Ok(())
}

// Output:
// the market is on
// skipped
// succeeded
