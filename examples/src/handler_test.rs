//! One attempt of one handler in a unit test, without a queue.

use punctual::State;
use punctual::testing::HandlerTest;

async fn charge(order: u64, State(limit): State<u64>) -> Result<(), String> {
    if order > limit { Err(format!("order {order} is too large")) } else { Ok(()) }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    for order in [7, 700] {
        let result = HandlerTest::new().state(100_u64).payload(&order).run(charge).await?;
        println!("{:?}", result.report);
    }
    Ok(())
}

// Output:
// Done
// Failed { error: "order 700 is too large" }
