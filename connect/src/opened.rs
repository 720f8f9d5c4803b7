//! A storage that was opened, behind the contracts.

use std::sync::Arc;

use punctual::{DocumentStore, Error, Inbox, Inspect, MemoryStorage, Result, Storage, SystemClock};

use crate::address::{Address, PostgresAddress, SqliteAddress};
use crate::checked;

/// A storage, as everything that needs one wants it.
#[derive(Clone)]
pub struct Opened {
    /// Remembers.
    pub storage: Arc<dyn Storage>,
    /// Reads for people.
    pub inspect: Arc<dyn Inspect>,
    /// Knows deliveries that were dealt with.
    pub inbox: Arc<dyn Inbox>,
    /// Keeps documents.
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

/// What a doctor found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkup {
    /// How the storage stands: what was looked at, and what it is like.
    pub facts: Vec<(&'static str, String)>,
    /// What is wrong or odd, in sentences; empty when all is well.
    pub findings: Vec<String>,
}

/// Opens the storage at an address, ready to be used: tables are created or migrated.
pub async fn open(address: &str) -> Result<Opened> {
    open_address(&Address::parse(address)?).await
}

/// The same for an address that was read before.
pub async fn open_address(address: &Address) -> Result<Opened> {
    match address {
        Address::Memory => {
            let storage = Arc::new(MemoryStorage::new(Arc::new(SystemClock)));
            Ok(Opened::new(&storage, Kind::Memory))
        }
        Address::Sqlite(address) => sqlite(address).await,
        Address::Postgres(address) => postgres(address).await,
    }
}

impl Opened {
    /// Looks at the storage as a whole. Changes nothing; a large file takes as long as reading it.
    pub async fn check(&self) -> Result<Checkup> {
        match &self.kind {
            #[cfg(feature = "sqlite")]
            Kind::Sqlite(storage) => Ok(checked::sqlite(storage.check().await?)),
            _ => self.glance().await,
        }
    }

    /// Looks at how the storage stands, in a moment however much it holds. Changes nothing.
    pub async fn glance(&self) -> Result<Checkup> {
        match &self.kind {
            Kind::Memory => {
                let facts = vec![("kept", "until this process ends".to_owned())];
                Ok(Checkup { facts, findings: Vec::new() })
            }
            #[cfg(feature = "sqlite")]
            Kind::Sqlite(storage) => Ok(checked::sqlite(storage.check_summary().await?)),
            #[cfg(feature = "postgres")]
            Kind::Postgres(storage) => Ok(checked::postgres(storage.check().await?)),
        }
    }

    /// Ends what the storage does in the background, where it does anything.
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
async fn sqlite(address: &SqliteAddress) -> Result<Opened> {
    use punctual_sqlite::{Durability, SqliteStorage};
    let durability = if address.normal { Durability::Normal } else { Durability::Full };
    let mut builder = SqliteStorage::builder(&address.path).durability(durability);
    if let Some(timeout) = address.busy_timeout {
        builder = builder.busy_timeout(timeout);
    }
    let storage = Arc::new(builder.open().await?);
    Ok(Opened::new(&storage, Kind::Sqlite(storage.clone())))
}

#[cfg(not(feature = "sqlite"))]
async fn sqlite(_address: &SqliteAddress) -> Result<Opened> {
    Err(without("SQLite", "sqlite"))
}

#[cfg(feature = "postgres")]
async fn postgres(address: &PostgresAddress) -> Result<Opened> {
    use punctual_postgres::PostgresStorage;
    let mut builder = PostgresStorage::builder(&address.url);
    if let Some(schema) = &address.schema {
        builder = builder.schema(schema);
    }
    if let Some(size) = address.pool_size {
        builder = builder.pool_size(size);
    }
    let storage = Arc::new(builder.connect().await?);
    Ok(Opened::new(&storage, Kind::Postgres(storage.clone())))
}

#[cfg(not(feature = "postgres"))]
async fn postgres(_address: &PostgresAddress) -> Result<Opened> {
    Err(without("PostgreSQL", "postgres"))
}

#[allow(dead_code)] // used where a feature is off
fn without(product: &str, feature: &str) -> Error {
    Error::unsupported(format!(
        "this binary was built without {product}: rebuild with --features {feature}"
    ))
}
