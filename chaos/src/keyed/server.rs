//! The server that is killed: the HTTP API in a process of its own, on the storage of the run. It also handles
//! one topic, so that messages are done by the time their request is repeated.
//!
//! It serves until its standard input ends, so that no server survives its driver.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use async_trait::async_trait;
use punctual::SystemClock;
use punctual::documents::{
    Document, DocumentStore, ExpectedVersion, KeyRange, NewDocument, PutResult, RemoveResult,
};
use punctual::jiff::Timestamp;
use punctual_server::{App, Parts, listen, router};
use serde_json::Value;

use crate::fuse::{Fuse, FuseLength, Point};
use crate::ledger::Ledger;
use crate::open::open_lazily;
use crate::watched::Watched;
use crate::worker::{TOPIC, end_of_input, process};

/// Which server.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Its name, which is the name of its ledger.
    #[arg(long)]
    pub name: String,
    /// The storage it serves.
    #[arg(long)]
    pub storage: String,
    /// The schema, where there are schemas.
    #[arg(long)]
    pub schema: String,
    /// The folder of the ledgers.
    #[arg(long)]
    pub ledgers: PathBuf,
    /// The port it listens on.
    #[arg(long)]
    pub port: u16,
    /// Where it ends without warning, such as `published:3:0`.
    #[arg(long)]
    pub fuse: Option<FuseLength>,
}

/// Serves until standard input ends.
pub async fn run(options: Options) -> Result<()> {
    let ledger = Arc::new(Ledger::create(&options.ledgers, &options.name)?);
    let fuse = Fuse::new(options.fuse);
    let opened = open_lazily(&options.storage, &options.schema).await?;
    let documents =
        Arc::new(FusedDocuments { inner: opened.documents.clone(), fuse: fuse.clone() });
    let watched = Arc::new(Watched::new(opened, ledger, fuse));
    let punctual = process(watched.clone()).handler(TOPIC, |_: Value| async {}).build()?;
    let punctual = Arc::new(punctual);
    let parts = Parts {
        punctual: punctual.clone(),
        storage: watched.clone(),
        inspect: watched,
        documents,
        clock: Arc::new(SystemClock),
    };
    let listening = listen(SocketAddr::from((Ipv4Addr::LOCALHOST, options.port))).await?;
    punctual.start().await?;
    listening.serve(router(App::new(parts)), end_of_input()).await?;
    punctual.shutdown().await;
    Ok(())
}

/// Documents whose writes pass a crash point.
struct FusedDocuments {
    inner: Arc<dyn DocumentStore>,
    fuse: Fuse,
}

#[async_trait]
impl DocumentStore for FusedDocuments {
    async fn put(
        &self,
        draft: NewDocument,
        seen: ExpectedVersion,
        now: Timestamp,
    ) -> punctual::Result<PutResult> {
        self.fuse.visit(Point::Recording);
        self.inner.put(draft, seen, now).await
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
        self.inner.get(kind, key, now).await
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
        seen: ExpectedVersion,
    ) -> punctual::Result<RemoveResult> {
        self.inner.remove(kind, key, seen).await
    }

    async fn expire(&self, limit: usize, now: Timestamp) -> punctual::Result<u64> {
        self.inner.expire(limit, now).await
    }
}
