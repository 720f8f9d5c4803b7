//! A job declared on its handler, checked at compile time and found by the builder.

use std::time::Duration;

use punctual::testing::TestHarness;
use punctual::{Occurrence, State, job};

#[derive(Clone)]
struct Office(&'static str);

#[job(name = "opening", cron = "0 9 * * MON-FRI", zone = "Europe/Warsaw", retry = "1m, 5m")]
async fn open(occurrence: Occurrence, State(Office(name)): State<Office>) {
    println!("{} opens at {}", name, occurrence.nominal);
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    let harness =
        TestHarness::start(|builder| builder.state(Office("the office")).discover()).await?;
    harness.advance(Duration::from_secs(26 * 3_600)).await;
    Ok(())
}

// Output:
// the office opens at 2026-03-02T08:00:00Z
// the office opens at 2026-03-03T08:00:00Z
