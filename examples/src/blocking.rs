//! A blocking handler: a plain function on a thread where blocking is allowed.

use std::time::Duration;

use punctual::testing::TestHarness;
use punctual::{Cancellation, blocking};

fn sum(last: u64, cancellation: Cancellation) -> Result<(), String> {
    let mut total = 0;
    for number in 1..=last {
        if cancellation.is_requested() {
            return Err("asked to stop".to_owned());
        }
        total += number;
    }
    println!("1 to {last} is {total}");
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    let harness = TestHarness::start(|builder| builder.handler("sum", blocking(sum))).await?;
    let harness = harness.timeout(Duration::from_secs(5));
    harness.publisher().publish("sum", &1_000).await?;
    harness.run_due().await;
    Ok(())
}

// Output:
// 1 to 1000 is 500500
