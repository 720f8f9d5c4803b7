//! A message in the application's own transaction: sent if the order is saved, otherwise not.

use std::sync::Arc;

use punctual::model::MessageState;
use punctual::inspect::{MessageFilter, PageRequest};
use punctual::{Inspect, Publisher, Punctual};
use punctual_sqlite::{SqliteOutbox, SqliteStorage};
use rusqlite::{Connection, TransactionBehavior};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Saves an order and publishes it, both or neither.
async fn place(publisher: &Publisher, shop: &mut Connection, order: i64) -> Result<(), Failure> {
    let placed = publisher.publish("order-placed", &order).prepare().await?;
    let now = placed.message.created_at;
    let transaction = shop.transaction_with_behavior(TransactionBehavior::Immediate)?;
    SqliteOutbox::new(&transaction).enqueue(&[placed], now)?;
    transaction.execute("INSERT INTO orders (id) VALUES (?1)", [order])?;
    transaction.commit()?;
    Ok(())
}

async fn run() -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("shop.db");
    let storage = Arc::new(SqliteStorage::open(&file).await?);
    let punctual = Punctual::builder().storage(storage.clone()).build()?;
    let publisher = punctual.publisher();

    let mut shop = Connection::open(&file)?;
    shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)", [])?;
    place(&publisher, &mut shop, 7).await?;
    // The table refuses the same order, and its message is rolled back with it.
    if let Err(error) = place(&publisher, &mut shop, 7).await {
        println!("not placed: {error}");
    }

    let filter = MessageFilter { states: vec![MessageState::Pending], ..MessageFilter::default() };
    for record in storage.messages(filter, PageRequest::first(10)).await?.rows {
        println!("waiting: {} {}", record.message.topic, record.message.body.read::<i64>()?);
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> punctual::Result<()> {
    run().await.map_err(|error| punctual::Error::internal(error.to_string()))
}

// Output:
// not placed: UNIQUE constraint failed: orders.id
// waiting: order-placed 7
