//! Priorities: the most urgent message goes first, 9 before 0.

use std::time::Duration;

use punctual::testing::TestHarness;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    let print = async |what: String| println!("{what}");
    let harness =
        TestHarness::start(|builder| builder.queue("default", 1).handler("print", print)).await?;
    let soon = Duration::from_secs(1);
    for (what, level) in [("tidy up", 0), ("write a letter", 5), ("put out the fire", 9)] {
        harness.publisher().publish("print", what).priority(level).after(soon).await?;
    }
    harness.advance(soon).await;
    Ok(())
}

// Output:
// put out the fire
// write a letter
// tidy up
