//! A storage in one file: accepted messages survive the end of the process.

use std::sync::Arc;

use punctual::{Error, Punctual, Result};
use punctual_sqlite::SqliteStorage;
use tokio::sync::mpsc;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<()> {
    let folder = tempfile::tempdir().map_err(|error| Error::internal(error.to_string()))?;
    let file = folder.path().join("shop.db");

    // A web server that accepts orders and handles none of them itself.
    let storage = Arc::new(SqliteStorage::open(&file).await?);
    let shop = Punctual::builder().storage(storage).build()?;
    shop.publisher().publish("order", "seven apples").await?;
    drop(shop);

    // A worker that starts later, on the same file.
    let (done, mut orders) = mpsc::channel(1);
    let pack = move |order: String| {
        let done = done.clone();
        async move { done.send(order).await }
    };
    let storage = Arc::new(SqliteStorage::open(&file).await?);
    let worker = Punctual::builder().storage(storage).handler("order", pack).build()?;
    worker.start().await?;
    if let Some(order) = orders.recv().await {
        println!("packed: {order}");
    }
    println!("{}", worker.shutdown().await);
    Ok(())
}

// Output:
// packed: seven apples
// stopped; everything that ran has finished
