//! Every outcome a handler can return, and the resulting state of its message.

use std::time::Duration;

use punctual::testing::TestHarness;
use punctual::{Context, Outcome};

async fn act(what: String, context: Context) -> Result<Outcome, String> {
    let minute = Duration::from_secs(60);
    Ok(match (what.as_str(), context.attempt()) {
        ("retry", 1) => Outcome::RetryAfter(minute),
        ("snooze", 1) if context.started_at() == punctual::testing::START => {
            Outcome::Snooze(minute)
        }
        ("discard", _) => Outcome::Discard("it costs nothing".to_owned()),
        ("cancel", _) => Outcome::Cancel,
        ("fail", 1) => return Err("no route".to_owned()),
        _ => Outcome::Done,
    })
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    let harness = TestHarness::start(|builder| builder.handler("act", act)).await?;
    for what in ["done", "retry", "snooze", "discard", "cancel", "fail"] {
        harness.publisher().publish("act", what).await?;
    }
    harness.advance(Duration::from_secs(60)).await;
    for (what, record) in harness.published::<String>("act").iter().zip(harness.messages("act")) {
        println!("{what}: {}, attempt {}", record.state.as_str(), record.attempt);
    }
    Ok(())
}

// Output:
// done: done, attempt 1
// retry: done, attempt 2
// snooze: done, attempt 1
// discard: dead, attempt 1
// cancel: cancelled, attempt 1
// fail: done, attempt 2
