//! Shutdown: handlers may finish, are then cancelled, and unfinished messages are released without spending
//! an attempt.

use std::time::Duration;

use punctual::testing::TestHarness;
use punctual::{Builder, Context};

async fn work(what: String, context: Context) -> Result<(), String> {
    println!("{what}: attempt {}", context.attempt());
    if what == "long" && context.started_at() == punctual::testing::START {
        let cause = context.cancelled().await;
        return Err(format!("stopped by {cause:?}"));
    }
    Ok(())
}

fn application(builder: Builder) -> Builder {
    let quick = |options: &mut punctual::Options| options.drain_timeout = Duration::ZERO;
    builder.options(quick).handler("work", work)
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    let old = TestHarness::start(application).await?;
    for what in ["short", "long"] {
        old.publisher().publish("work", what).await?;
    }
    old.run_due().await;
    println!("{}", old.shutdown().await);
    old.clock().advance(Duration::from_secs(1));
    let new = old.another(application).await?;
    new.run_due().await;
    for execution in new.executions("work") {
        println!("attempt {} {}", execution.attempt, execution.ending.as_str());
    }
    Ok(())
}

// Output:
// short: attempt 1
// long: attempt 1
// stopped; 1 attempt was interrupted
// long: attempt 1
// attempt 1 succeeded
// attempt 1 released
// attempt 1 succeeded
