//! A handler reports its progress and writes log lines that are kept with the execution.

use punctual::testing::TestHarness;
use punctual::{Context, Event};

async fn pack(boxes: u8, context: Context) {
    for number in 1..=boxes {
        context.progress((100 / boxes * number, format!("box {number}")));
    }
    context.log(format!("{boxes} boxes are on the cart"));
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    let harness = TestHarness::start(|builder| {
        let hook = |event: &Event| {
            if let Event::AttemptProgressed { percent, note, .. } = event {
                println!("{} %, {note}", percent.unwrap_or(0));
            }
        };
        builder.on_event(hook).handler("pack", pack)
    })
    .await?;
    harness.publisher().publish("pack", &4).await?;
    harness.run_due().await;
    for execution in harness.executions("pack") {
        println!("log: {}", execution.log.as_deref().unwrap_or("nothing"));
    }
    Ok(())
}

// Output:
// 25 %, box 1
// 50 %, box 2
// 75 %, box 3
// 100 %, box 4
// log: 4 boxes are on the cart
