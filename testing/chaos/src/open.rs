//! Opening of storages by connection string and, on PostgreSQL, schema.

use std::sync::Arc;

use anyhow::{Result, bail};
use punctual::backend::documents::DocumentStore;
use punctual::{Inspect, Storage};
use punctual_postgres::PostgresStorage;
use punctual_sqlite::SqliteStorage;

/// Open storage, by its three interfaces.
#[derive(Clone)]
pub struct StorageHandles {
    /// For workers and publishers.
    pub storage: Arc<dyn Storage>,
    /// For reading messages and counts.
    pub inspect: Arc<dyn Inspect>,
    /// For records of a server.
    pub documents: Arc<dyn DocumentStore>,
}

impl StorageHandles {
    fn new<S: Storage + Inspect + DocumentStore>(storage: S) -> Self {
        let storage = Arc::new(storage);
        Self { storage: storage.clone(), inspect: storage.clone(), documents: storage }
    }
}

/// Opens `sqlite:path` or `postgres://...`, the latter with a schema.
pub async fn open(address: &str, schema: &str) -> Result<StorageHandles> {
    if address.starts_with("postgres://") || address.starts_with("postgresql://") {
        let builder = PostgresStorage::builder(address).schema(schema);
        return Ok(StorageHandles::new(builder.connect().await?));
    }
    if let Some(path) = address.strip_prefix("sqlite:") {
        return Ok(StorageHandles::new(SqliteStorage::open(path).await?));
    }
    bail!("{address:?} is neither sqlite:path nor postgres://host")
}

/// Opens a storage without connecting, so that the database may be unavailable.
pub async fn open_lazily(address: &str, schema: &str) -> Result<StorageHandles> {
    if address.starts_with("postgres://") || address.starts_with("postgresql://") {
        let builder = PostgresStorage::builder(address).schema(schema);
        return Ok(StorageHandles::new(builder.connect_lazy()?));
    }
    open(address, schema).await
}
