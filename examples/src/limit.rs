//! No more than so many at once, on all processes together.

use std::sync::Arc;

use punctual::State;
use punctual::testing::TestHarness;
use tokio::sync::Semaphore;

/// Where a handler waits for the outside world.
type Door = Arc<Semaphore>;

async fn send(to: String, State(door): State<Door>) {
    println!("{to} begins");
    if let Ok(permit) = door.acquire().await {
        permit.forget();
    }
    println!("{to} ends");
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    let door = Door::new(Semaphore::new(0));
    let rehearsal =
        TestHarness::start(|builder| builder.state(door.clone()).handler("send", send)).await?;
    for to in ["ada", "bob", "cleo"] {
        rehearsal.publisher().publish("send", to).limit("smtp", 2).await?;
    }
    rehearsal.run_due().await;
    println!("-- two at once, cleo waits");
    door.add_permits(3);
    rehearsal.run_due().await;
    Ok(())
}

// Output:
// ada begins
// bob begins
// -- two at once, cleo waits
// ada ends
// bob ends
// cleo begins
// cleo ends
