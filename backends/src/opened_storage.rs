//! Opened storage: the contracts of a storage that was opened by its address.

use std::sync::Arc;

use punctual::{DocumentStore, Error, Inbox, Inspect, MemoryStorage, Result, Storage, SystemClock};

use crate::address::{Address, PostgresAddress, SqliteAddress};
use crate::storage_check;

/// A storage behind the contracts it implements.
#[derive(Clone)]
pub struct OpenedStorage {
    /// Stores and claims messages and jobs.
    pub storage: Arc<dyn Storage>,
    /// Reads for the inspection API.
    pub inspect: Arc<dyn Inspect>,
    /// Records handled deliveries.
    pub inbox: Arc<dyn Inbox>,
    /// Stores documents.
    pub documents: Arc<dyn DocumentStore>,
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    Memory,
    #[cfg(feature = "sqlite")]
    Sqlite(Arc<punctual_sqlite::SqliteStorage>),
    #[cfg(feature = "postgres")]
    Postgres(Arc<punctual_postgres::PostgresStorage>),
}

/// Result of a check of a storage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorageCheckResult {
    /// Findings of the check: names and values.
    pub facts: Vec<(&'static str, String)>,
    /// Problems and oddities, one sentence each; empty when there are none.
    pub findings: Vec<String>,
}

/// Opens the storage at an address, ready to be used: tables are created or migrated.
pub async fn open(address: &str) -> Result<OpenedStorage> {
    open_address(&Address::parse(address)?).await
}

/// Opens the storage at a parsed address.
pub async fn open_address(address: &Address) -> Result<OpenedStorage> {
    match address {
        Address::Memory => {
            let storage = Arc::new(MemoryStorage::new(Arc::new(SystemClock)));
            Ok(OpenedStorage::new(&storage, Kind::Memory))
        }
        Address::Sqlite(address) => sqlite(address).await,
        Address::Postgres(address) => postgres(address).await,
    }
}

impl OpenedStorage {
    /// Checks the whole storage. Changes nothing; a large SQLite file takes as long as reading it.
    pub async fn check(&self) -> Result<StorageCheckResult> {
        match &self.kind {
            #[cfg(feature = "sqlite")]
            Kind::Sqlite(storage) => Ok(storage_check::sqlite(storage.check().await?)),
            _ => self.quick_check().await,
        }
    }

    /// Checks the state of the storage in constant time. Changes nothing.
    pub async fn quick_check(&self) -> Result<StorageCheckResult> {
        match &self.kind {
            Kind::Memory => {
                let facts = vec![("kept", "until this process ends".to_owned())];
                Ok(StorageCheckResult { facts, findings: Vec::new() })
            }
            #[cfg(feature = "sqlite")]
            Kind::Sqlite(storage) => Ok(storage_check::sqlite(storage.check_summary().await?)),
            #[cfg(feature = "postgres")]
            Kind::Postgres(storage) => Ok(storage_check::postgres(storage.check().await?)),
        }
    }

    /// Stops the storage's background work, if it has any.
    pub async fn close(&self) -> Result<()> {
        match &self.kind {
            #[cfg(feature = "sqlite")]
            Kind::Sqlite(storage) => storage.close().await,
            _ => Ok(()),
        }
    }

    fn new<S: Storage + Inspect + Inbox + DocumentStore>(storage: &Arc<S>, kind: Kind) -> Self {
        Self {
            storage: storage.clone(),
            inspect: storage.clone(),
            inbox: storage.clone(),
            documents: storage.clone(),
            kind,
        }
    }
}

#[cfg(feature = "sqlite")]
async fn sqlite(address: &SqliteAddress) -> Result<OpenedStorage> {
    use punctual_sqlite::{Durability, SqliteStorage};
    let durability = if address.normal { Durability::Normal } else { Durability::Full };
    let mut builder = SqliteStorage::builder(&address.path).durability(durability);
    if let Some(timeout) = address.busy_timeout {
        builder = builder.busy_timeout(timeout);
    }
    let storage = Arc::new(builder.open().await?);
    Ok(OpenedStorage::new(&storage, Kind::Sqlite(storage.clone())))
}

#[cfg(not(feature = "sqlite"))]
async fn sqlite(_address: &SqliteAddress) -> Result<OpenedStorage> {
    Err(without("SQLite", "sqlite"))
}

#[cfg(feature = "postgres")]
async fn postgres(address: &PostgresAddress) -> Result<OpenedStorage> {
    use punctual_postgres::PostgresStorage;
    let mut builder = PostgresStorage::builder(&address.url);
    if let Some(schema) = &address.schema {
        builder = builder.schema(schema);
    }
    if let Some(size) = address.pool_size {
        builder = builder.pool_size(size);
    }
    let storage = Arc::new(builder.connect().await?);
    Ok(OpenedStorage::new(&storage, Kind::Postgres(storage.clone())))
}

#[cfg(not(feature = "postgres"))]
async fn postgres(_address: &PostgresAddress) -> Result<OpenedStorage> {
    Err(without("PostgreSQL", "postgres"))
}

#[allow(dead_code)] // used where a feature is off
fn without(product: &str, feature: &str) -> Error {
    Error::unsupported(format!(
        "this binary was built without {product}: rebuild with --features {feature}"
    ))
}
