//! The suite of all transports, over a file in a new folder for each case.

#![allow(clippy::unwrap_used)] // a set-up that fails is a test that fails

use std::process::ExitCode;
use std::sync::Arc;

use async_trait::async_trait;
use punctual::{Result, Transport};
use punctual_conformance::transport::{self, Backend, Environment, Need, Stores};
use punctual_sqlite::SqliteStorage;

struct Folder(tempfile::TempDir);

impl Folder {
    async fn storage(&self) -> Result<Arc<SqliteStorage>> {
        Ok(Arc::new(SqliteStorage::open(self.0.path().join("punctual.db")).await?))
    }
}

#[async_trait]
impl Environment for Folder {
    async fn open(&self) -> Result<Arc<dyn Transport>> {
        Ok(transport::over(self.storage().await?))
    }

    async fn stores(&self) -> Result<Option<Stores>> {
        let storage = self.storage().await?;
        Ok(Some((storage.clone(), storage)))
    }
}

fn main() -> ExitCode {
    let backend = Backend::local(|| async { Ok(Folder(tempfile::tempdir().unwrap())) })
        .cannot(Need::ForeignMessages, "only Punctual writes to a storage")
        .cannot(Need::Restart, "a file has no server to restart")
        .cannot(Need::Cut, "a file has no connection")
        .cannot(Need::SlowDown, "a file has no network");
    transport::run("sqlite", backend)
}
