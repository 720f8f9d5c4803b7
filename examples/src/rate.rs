//! A rate limit across all processes; messages above it wait.

use std::time::Duration;

use punctual::Context;
use punctual::testing::TestHarness;

async fn send(to: u32, context: Context) {
    let seconds = context.started_at().strftime("%M:%S");
    println!("{seconds} to {to}, attempt {}", context.attempt());
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    let harness = TestHarness::start(|builder| builder.handler("send", send)).await?;
    let minute = Duration::from_secs(60);
    for to in 1..=5 {
        harness.publisher().publish("send", &to).rate("smtp", 2, minute).await?;
    }
    harness.advance(3 * minute).await;
    Ok(())
}

// Output:
// 00:00 to 1, attempt 1
// 00:00 to 2, attempt 1
// 01:00 to 3, attempt 1
// 01:30 to 4, attempt 1
// 02:00 to 5, attempt 1
