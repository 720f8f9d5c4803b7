//! Return types of a handler, and that it must be asynchronous.
use punctual::Punctual;

#[derive(serde::Deserialize)]
struct Order;

async fn number(_: Order) -> u32 {
    7
}

fn plain(_: Order) {}

fn main() {
    let _ = Punctual::builder().handler("number", number);
    let _ = Punctual::builder().handler("plain", plain);
    let _ = Punctual::builder().register::<Order>();
}
