//! Arguments: the error names the ones that a handler cannot take.
use punctual::{Context, Punctual, job};

struct Database;

#[derive(serde::Deserialize)]
struct Order;

async fn behind(_: Order, _: Database) {}

async fn first(_: Database, _: Context) {}

async fn borrowed(_: Order, _: &Context) {}

#[job(name = "a", every = "5m")]
async fn declared(_: Context, _: Database) {}

fn main() {
    let _ = Punctual::builder().handler("behind", behind);
    let _ = Punctual::builder().handler("first", first);
    let _ = Punctual::builder().handler("borrowed", borrowed);
}
