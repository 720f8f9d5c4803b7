//! A one-time job: planned at run time under a key, replaced or cancelled by that key.

use std::time::Duration;

use punctual::Context;
use punctual::model::Key;
use punctual::testing::TestHarness;

async fn remind(order: Key, context: Context) {
    println!("{}: please pay order {order}", context.started_at());
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    let harness = TestHarness::start(|builder| builder.handler("payment-reminder", remind)).await?;
    let (jobs, hour) = (harness.jobs(), Duration::from_secs(3_600));
    jobs.once("payment-reminder").key("7").after(3 * hour).await?;
    jobs.once("payment-reminder").key("8").after(3 * hour).await?;

    let second = jobs.once("payment-reminder").key("7").after(hour).await;
    println!("a second one is refused: {}", second.is_err());
    jobs.once("payment-reminder").key("7").after(hour).replace().await?;
    println!("{} cancelled", jobs.cancel("payment-reminder", "8").await?);
    harness.advance(5 * hour).await;
    Ok(())
}

// Output:
// a second one is refused: true
// 1 cancelled
// 2026-03-02T08:00:00Z: please pay order 7
