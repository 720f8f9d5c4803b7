//! Errors that decide about retries, rules by the type of an error, and hooks.

use std::io;
use std::time::Duration;

use punctual::testing::TestHarness;
use punctual::{Context, HandlerError, Outcome};

async fn pay(card: String, context: Context) -> Result<(), HandlerError> {
    match (card.as_str(), context.attempt()) {
        ("stolen", _) => Err(HandlerError::new("the card is stolen").permanent()),
        ("new", 1) => {
            Err(HandlerError::new("not active yet").retry_after(Duration::from_secs(3_600)))
        }
        ("lost", _) => Err(io::Error::from(io::ErrorKind::NotFound).into()),
        _ => Ok(()),
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    let harness = TestHarness::start(|builder| {
        builder
            .handler("pay", pay)
            .on_error(|error: &io::Error| {
                let gone = error.kind() == io::ErrorKind::NotFound;
                gone.then(|| Outcome::Discard("the card was not found".to_owned()))
            })
            .on_failure(|failure| match failure.again_at {
                Some(at) => println!("failed, again at {at}"),
                None => println!("failed permanently"),
            })
            .on_exhausted(|end| println!("dead: {}", end.error.unwrap_or("-")))
    })
    .await?;
    for card in ["good", "stolen", "lost", "new"] {
        println!("{card}:");
        harness.publisher().publish("pay", card).await?;
        harness.advance(Duration::from_secs(3_600)).await;
    }
    Ok(())
}

// Output:
// good:
// stolen:
// failed permanently
// dead: the card is stolen
// lost:
// failed permanently
// dead: the card was not found
// new:
// failed, again at 2026-03-02T11:00:00Z
