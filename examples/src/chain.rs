//! What follows a message: when it is done, when it is given up, or in any case.

use punctual::model::HandlerOptions;
use punctual::testing::TestHarness;
use punctual::{Context, Retry};

async fn fetch(page: String, context: Context) -> punctual::Result<()> {
    if page == "gone" {
        return Err(punctual::Error::not_found("nobody has that page"));
    }
    context.returns(&format!("the text of {page}"))
}

async fn translate(language: String, context: Context) -> punctual::Result<()> {
    let text: Option<String> = context.parent_result()?;
    println!("to {language}: {}", text.unwrap_or_default());
    Ok(())
}

async fn tell(what: String) {
    println!("{what}");
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    let once = HandlerOptions::new().retry(Retry::none());
    let rehearsal = TestHarness::start(|builder| {
        let builder = builder.handler_with("fetch", once, fetch);
        builder.handler("translate", translate).handler("tell", tell)
    })
    .await?;
    let publisher = rehearsal.publisher();
    for page in ["index", "gone"] {
        publisher
            .publish("fetch", page)
            .then(publisher.publish("translate", "pl"))
            .on_failure(publisher.publish("tell", "it could not be fetched"))
            .always(publisher.publish("tell", "one page less"))
            .await?;
        rehearsal.run_due().await;
    }
    Ok(())
}

// Output:
// to pl: the text of index
// one page less
// it could not be fetched
// one page less
