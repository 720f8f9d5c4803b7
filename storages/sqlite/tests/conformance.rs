//! Conformance suite of all storages, on a file in a new folder for each case.

#![allow(clippy::unwrap_used)] // a set-up that fails is a test that fails

use std::process::ExitCode;
use std::sync::Arc;

use async_trait::async_trait;
use punctual::{Error, ManualClock, Result};
use punctual_conformance::storage::{self, Backend, Environment, Node};
use punctual_sqlite::SqliteStorage;

struct Folder {
    folder: tempfile::TempDir,
    clock: ManualClock,
}

#[async_trait]
impl Environment for Folder {
    async fn open(&self) -> Result<Node> {
        let path = self.folder.path().join("punctual.db");
        let storage = SqliteStorage::builder(path).clock(Arc::new(self.clock.clone()));
        Ok(Node::new(Arc::new(storage.open().await?)))
    }

    /// Checks that the file is intact and every count matches its rows.
    async fn remove(&self) -> Result<()> {
        let storage = SqliteStorage::open(self.folder.path().join("punctual.db")).await?;
        let findings = storage.check().await?.findings;
        storage.close().await?;
        if findings.is_empty() { Ok(()) } else { Err(Error::internal(findings.join("; "))) }
    }
}

fn main() -> ExitCode {
    let backend = Backend::local(|clock| async move {
        Ok(Folder { folder: tempfile::tempdir().unwrap(), clock })
    });
    storage::run("sqlite", backend.uses_test_clock().notifies_between_nodes())
}
