//! Chained messages: sent on success, after the final failure, or always.

use punctual::model::HandlerOptions;
use punctual::testing::TestHarness;
use punctual::{Context, Retry};

async fn fetch(page: String, context: Context) -> punctual::Result<()> {
    if page == "gone" {
        return Err(punctual::Error::not_found("the page does not exist"));
    }
    context.returns(&format!("the text of {page}"))
}

async fn translate(language: String, context: Context) -> punctual::Result<()> {
    let text: Option<String> = context.parent_result()?;
    println!("to {language}: {}", text.unwrap_or_default());
    Ok(())
}

async fn print(what: String) {
    println!("{what}");
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    let once = HandlerOptions::new().retry(Retry::none());
    let harness = TestHarness::start(|builder| {
        let builder = builder.handler_with("fetch", once, fetch);
        builder.handler("translate", translate).handler("print", print)
    })
    .await?;
    let publisher = harness.publisher();
    for page in ["index", "gone"] {
        publisher
            .publish("fetch", page)
            .then(publisher.publish("translate", "pl"))
            .on_failure(publisher.publish("print", "it could not be fetched"))
            .always(publisher.publish("print", "one page less"))
            .await?;
        harness.run_due().await;
    }
    Ok(())
}

// Output:
// to pl: the text of index
// one page less
// it could not be fetched
// one page less
