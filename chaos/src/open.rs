//! Opening a storage by its connection string and, where several runs may share it, a schema.

use std::sync::Arc;

use anyhow::{Result, bail};
use punctual::documents::DocumentStore;
use punctual::{Inspect, Storage};
use punctual_postgres::PostgresStorage;
use punctual_sqlite::SqliteStorage;

/// A storage, to work with and to look into.
#[derive(Clone)]
pub struct Opened {
    /// To work with.
    pub storage: Arc<dyn Storage>,
    /// To look into.
    pub inspect: Arc<dyn Inspect>,
    /// For what a server keeps of its own.
    pub documents: Arc<dyn DocumentStore>,
}

impl Opened {
    fn new<S: Storage + Inspect + DocumentStore>(storage: S) -> Self {
        let storage = Arc::new(storage);
        Self { storage: storage.clone(), inspect: storage.clone(), documents: storage }
    }
}

/// Opens `sqlite:path` or `postgres://...`, the latter in a schema of its own.
pub async fn open(address: &str, schema: &str) -> Result<Opened> {
    if address.starts_with("postgres://") || address.starts_with("postgresql://") {
        let builder = PostgresStorage::builder(address).schema(schema);
        return Ok(Opened::new(builder.connect().await?));
    }
    if let Some(path) = address.strip_prefix("sqlite:") {
        return Ok(Opened::new(SqliteStorage::open(path).await?));
    }
    bail!("{address:?} is neither sqlite:path nor postgres://host")
}

/// The same, also while the database is away.
pub async fn open_lazily(address: &str, schema: &str) -> Result<Opened> {
    if address.starts_with("postgres://") || address.starts_with("postgresql://") {
        let builder = PostgresStorage::builder(address).schema(schema);
        return Ok(Opened::new(builder.connect_lazy()?));
    }
    open(address, schema).await
}
