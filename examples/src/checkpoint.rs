//! Checkpoints: long work resumes where it was after a failure.

use std::time::Duration;

use punctual::testing::TestHarness;
use punctual::{Context, HandlerError};

async fn import(pages: u32, context: Context) -> Result<(), HandlerError> {
    let begin = context.resumed()?.unwrap_or(1);
    println!("attempt {} begins at page {begin}", context.attempt());
    for page in begin..=pages {
        if page == 3 && context.attempt() == 1 {
            return Err(HandlerError::new("the line broke"));
        }
        println!("page {page}");
        context.checkpoint(&(page + 1)).await?;
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    let harness = TestHarness::start(|builder| builder.handler("import", import)).await?;
    harness.publisher().publish("import", &4).await?;
    harness.advance(Duration::from_secs(60)).await;
    Ok(())
}

// Output:
// attempt 1 begins at page 1
// page 1
// page 2
// attempt 2 begins at page 3
// page 3
// page 4
