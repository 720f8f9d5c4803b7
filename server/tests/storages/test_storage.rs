//! Test storage: a new storage of each kind, deleted at the end of a case.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual::{Builder, Clock, Punctual};
use punctual_backends::OpenedStorage;
use punctual_server::{App, AppParts};
use tempfile::TempDir;
use tokio_postgres::NoTls;

static NEXT: AtomicU64 = AtomicU64::new(0);

/// A kind of storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Memory,
    Sqlite,
    Postgres,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Memory, Self::Sqlite, Self::Postgres];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }

    /// Returns the start of an address of this kind; none without a server.
    pub(crate) fn address(self) -> Option<String> {
        match self {
            Self::Memory => Some("memory:".to_owned()),
            Self::Sqlite => Some("sqlite:".to_owned()),
            Self::Postgres => {
                std::env::var("PUNCTUAL_POSTGRES_URL").ok().filter(|url| !url.is_empty())
            }
        }
    }
}

/// A storage for one case.
pub(crate) struct TestStorage {
    pub(crate) address: String,
    pub(crate) kind: Kind,
    schema: String,
    // Deleted with the last clone.
    folder: Arc<TempDir>,
}

impl TestStorage {
    pub(crate) fn new(kind: Kind) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let schema = format!("server_{}_{number}", std::process::id());
        let folder = tempfile::tempdir().unwrap();
        let base = kind.address().unwrap();
        let address = match kind {
            Kind::Memory => base,
            Kind::Sqlite => format!("{base}{}", folder.path().join("punctual.db").display()),
            Kind::Postgres => {
                let separator = if base.contains('?') { '&' } else { '?' };
                format!("{base}{separator}schema={schema}&pool_size=4")
            }
        };
        Self { address, kind, schema, folder: Arc::new(folder) }
    }

    /// Returns the same storage for another server.
    pub(crate) fn share(&self) -> Self {
        let (address, schema) = (self.address.clone(), self.schema.clone());
        Self { address, kind: self.kind, schema, folder: self.folder.clone() }
    }

    pub(crate) async fn open(&self) -> OpenedStorage {
        punctual_backends::open(&self.address).await.unwrap()
    }

    /// Deletes the storage.
    pub(crate) async fn remove(self) {
        if self.kind != Kind::Postgres {
            return;
        }
        let url = self.kind.address().unwrap();
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        let driving = tokio::spawn(connection);
        let drop = format!("DROP SCHEMA IF EXISTS \"{}\" CASCADE", self.schema);
        client.batch_execute(&drop).await.unwrap();
        std::mem::drop(client);
        driving.await.unwrap().unwrap();
    }
}

/// Builds the application of the endpoints on an open storage.
pub(crate) fn app(
    opened: &OpenedStorage,
    clock: Arc<dyn Clock>,
    change: impl FnOnce(Builder) -> Builder,
) -> App {
    let builder = Punctual::builder().stores(opened.storage.clone(), opened.inspect.clone());
    let punctual = Arc::new(change(builder.clock(clock.clone())).build().unwrap());
    App::new(AppParts {
        punctual,
        storage: opened.storage.clone(),
        inspect: opened.inspect.clone(),
        documents: opened.documents.clone(),
        clock,
    })
}
