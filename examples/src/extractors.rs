//! The arguments a handler may take besides its payload, and a custom extractor.

use punctual::model::{Key, Topic};
use punctual::testing::TestHarness;
use punctual::{Context, FromContext, HandlerError};

/// The customer a message belongs to, by its header.
struct Tenant(String);

impl FromContext for Tenant {
    async fn from_context(context: &Context) -> Result<Self, HandlerError> {
        let name = context.headers().get("tenant").ok_or("the header `tenant` is missing")?;
        Ok(Self(name.to_owned()))
    }
}

async fn welcome(name: String, Tenant(tenant): Tenant, key: Option<Key>, topic: Topic) {
    let key = key.map_or("no key".to_owned(), |key| key.to_string());
    println!("{tenant} says {topic} to {name}, about {key}");
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    let harness = TestHarness::start(|builder| builder.handler("welcome", welcome)).await?;
    let publisher = harness.publisher();
    publisher.publish("welcome", "Ada").header("tenant", "acme").key("customer 12").await?;
    publisher.publish("welcome", "Bob").header("tenant", "corner").await?;
    publisher.publish("welcome", "Cleo").await?;
    harness.run_due().await;
    for execution in harness.executions("welcome") {
        println!("{}: {}", execution.ending.as_str(), execution.note.as_deref().unwrap_or("-"));
    }
    Ok(())
}

// Output:
// acme says welcome to Ada, about customer 12
// corner says welcome to Bob, about no key
// succeeded: -
// succeeded: -
// failed: the handler's argument punctual_examples::extractors::Tenant could not be extracted: the header `tenant` is missing
