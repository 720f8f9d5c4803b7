//! Server to be killed: the HTTP API in a process of its own, on the storage of the run. It also handles one topic,
//! so that some messages are done before their request is repeated.
//!
//! It serves until its standard input ends, so that no server outlives its driver.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use async_trait::async_trait;
use punctual::SystemClock;
use punctual::backend::documents::{
    Document, DocumentStore, ExpectedVersion, KeyRange, NewDocument, PutResult, RemoveResult,
};
use punctual::jiff::Timestamp;
use punctual_server::{App, AppParts, listen, router};
use serde_json::Value;

use super::leases::LeaseLedger;
use crate::fuse::{CrashPoint, Fuse, FuseSetting};
use crate::ledger::Ledger;
use crate::open::open_lazily;
use crate::recording_storage::RecordingStorage;
use crate::worker::{TOPIC, builder, wait_for_end_of_input};

/// Options of a server process.
#[derive(Clone, Debug, clap::Args)]
pub struct ServerOptions {
    /// Name of the server and of its ledger.
    #[arg(long)]
    pub name: String,
    /// Address of the storage.
    #[arg(long)]
    pub storage: String,
    /// Schema on PostgreSQL.
    #[arg(long)]
    pub schema: String,
    /// Folder of the ledgers.
    #[arg(long)]
    pub ledgers: PathBuf,
    /// Port to listen on.
    #[arg(long)]
    pub port: u16,
    /// Fuse to abort at, such as `published:3:0`.
    #[arg(long)]
    pub fuse: Option<FuseSetting>,
}

/// Serves until standard input ends.
pub async fn run(options: ServerOptions) -> Result<()> {
    let ledger = Arc::new(Ledger::create(&options.ledgers, &options.name)?);
    let fuse = Fuse::new(options.fuse);
    let opened = open_lazily(&options.storage, &options.schema).await?;
    let documents = Arc::new(FusedDocuments {
        inner: opened.documents.clone(),
        fuse: fuse.clone(),
        leases: LeaseLedger::create(&options.ledgers, &options.name)?,
    });
    let recording = Arc::new(RecordingStorage::new(opened, ledger, fuse));
    let punctual = builder(recording.clone()).handler(TOPIC, |_: Value| async {}).build()?;
    let punctual = Arc::new(punctual);
    let parts = AppParts {
        punctual: punctual.clone(),
        storage: recording.clone(),
        inspect: recording,
        documents,
        clock: Arc::new(SystemClock),
    };
    let listening = listen(SocketAddr::from((Ipv4Addr::LOCALHOST, options.port))).await?;
    punctual.start().await?;
    listening.serve(router(App::new(parts)), wait_for_end_of_input()).await?;
    punctual.shutdown().await;
    Ok(())
}

/// Document store with a crash point before each write, which records the leases of keys in a ledger.
struct FusedDocuments {
    inner: Arc<dyn DocumentStore>,
    fuse: Fuse,
    leases: LeaseLedger,
}

#[async_trait]
impl DocumentStore for FusedDocuments {
    async fn put(
        &self,
        draft: NewDocument,
        expected: ExpectedVersion,
        now: Timestamp,
    ) -> punctual::Result<PutResult> {
        let lease = self.leases.write_begins(&draft);
        self.fuse.visit(CrashPoint::Recording);
        let result = self.inner.put(draft, expected, now).await?;
        if let (Some(lease), PutResult::Stored(_)) = (lease, &result) {
            self.leases.write_ended(lease);
        }
        Ok(result)
    }

    async fn put_all(&self, drafts: Vec<NewDocument>, now: Timestamp) -> punctual::Result<()> {
        self.inner.put_all(drafts, now).await
    }

    async fn get(
        &self,
        kind: &str,
        key: &str,
        now: Timestamp,
    ) -> punctual::Result<Option<Document>> {
        let document = self.inner.get(kind, key, now).await?;
        if let Some(document) = &document {
            self.leases.was_read(document);
        }
        Ok(document)
    }

    async fn list(
        &self,
        kind: &str,
        range: KeyRange,
        now: Timestamp,
    ) -> punctual::Result<Vec<Document>> {
        self.inner.list(kind, range, now).await
    }

    async fn remove(
        &self,
        kind: &str,
        key: &str,
        expected: ExpectedVersion,
    ) -> punctual::Result<RemoveResult> {
        self.inner.remove(kind, key, expected).await
    }

    async fn expire(&self, limit: usize, now: Timestamp) -> punctual::Result<u64> {
        self.inner.expire(limit, now).await
    }
}
