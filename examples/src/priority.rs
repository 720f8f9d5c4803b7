//! The most urgent goes first, 9 before 0.

use std::time::Duration;

use punctual::testing::TestHarness;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    let tell = async |what: String| println!("{what}");
    let rehearsal =
        TestHarness::start(|builder| builder.queue("default", 1).handler("tell", tell)).await?;
    let soon = Duration::from_secs(1);
    for (what, level) in [("tidy up", 0), ("write a letter", 5), ("put out the fire", 9)] {
        rehearsal.publisher().publish("tell", what).priority(level).after(soon).await?;
    }
    rehearsal.advance(soon).await;
    Ok(())
}

// Output:
// put out the fire
// write a letter
// tidy up
