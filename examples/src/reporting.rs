//! A handler that must report: returning without a report is a failure.

use punctual::model::HandlerOptions;
use punctual::testing::TestHarness;
use punctual::{Context, Retry, must_report};

async fn import(file: String, context: Context) {
    match file.as_str() {
        "sales.csv" => context.report_success("812 lines"),
        "empty.csv" => context.report_failure("no lines"),
        _ => {}
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    let once = HandlerOptions::new().retry(Retry::none());
    let harness = TestHarness::start(|builder| {
        builder.handler_with("import", once, must_report(import))
    })
    .await?;
    for file in ["sales.csv", "empty.csv", "silent.csv"] {
        harness.publisher().publish("import", file).await?;
        harness.run_due().await;
    }
    for execution in harness.executions("import") {
        println!("{}: {}", execution.ending.as_str(), execution.note.as_deref().unwrap_or("-"));
    }
    Ok(())
}

// Output:
// succeeded: 812 lines
// failed: no lines
// failed: the handler must report and returned without report_success() or report_failure(); progress alone is no report
