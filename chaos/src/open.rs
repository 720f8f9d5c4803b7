//! Opening a storage by its connection string.

use std::sync::Arc;

use anyhow::{Result, bail};
use punctual::{Inspect, Storage};
use punctual_sqlite::SqliteStorage;

/// A storage, to work with and to look into.
#[derive(Clone)]
pub struct Opened {
    /// To work with.
    pub storage: Arc<dyn Storage>,
    /// To look into.
    pub inspect: Arc<dyn Inspect>,
}

impl Opened {
    fn new<S: Storage + Inspect>(storage: S) -> Self {
        let storage = Arc::new(storage);
        Self { storage: storage.clone(), inspect: storage }
    }
}

/// Opens `sqlite:path` or `postgres://...`.
pub async fn open(address: &str) -> Result<Opened> {
    if let Some(path) = address.strip_prefix("sqlite:") {
        return Ok(Opened::new(SqliteStorage::open(path).await?));
    }
    bail!("{address:?} is neither sqlite:path nor postgres://host")
}
