//! Conformance suite of all transports, over a folder of its own for each case.

use std::process::ExitCode;
use std::sync::Arc;

use async_trait::async_trait;
use folder_transport::FolderTransport;
use punctual::backend::wire::Wire;
use punctual::model::Topic;
use punctual::{Error, Result, Transport};
use punctual_conformance::transport::{self, Backend, Environment, Need};
use tempfile::TempDir;

struct Folder(TempDir);

impl Folder {
    fn new() -> Result<Self> {
        TempDir::new().map(Self).map_err(unavailable)
    }

    fn letters(&self, topic: &Topic, group: &str, kind: &str) -> Result<Vec<Wire>> {
        FolderTransport::open(self.0.path())?.letters(topic, group, kind)
    }
}

#[async_trait]
impl Environment for Folder {
    async fn open(&self) -> Result<Arc<dyn Transport>> {
        Ok(Arc::new(FolderTransport::open(self.0.path())?))
    }

    async fn publish_foreign(
        &self,
        topic: &Topic,
        body: &[u8],
        headers: &[(&str, &str)],
    ) -> Result<()> {
        FolderTransport::open(self.0.path())?.put(topic, body, headers)
    }

    async fn dead(&self, topic: &Topic, group: &str) -> Result<Vec<Wire>> {
        self.letters(topic, group, "dead")
    }

    async fn invalid(&self, topic: &Topic, group: &str) -> Result<Vec<Wire>> {
        self.letters(topic, group, "invalid")
    }
}

fn unavailable(error: std::io::Error) -> Error {
    Error::unavailable(error.to_string())
}

fn main() -> ExitCode {
    let backend = Backend::local(|| async { Folder::new() })
        .cannot(Need::Restart, "there is no broker, only files")
        .cannot(Need::Cut, "there are no connections, only files")
        .cannot(Need::SlowDown, "there is no network, only files");
    transport::run("folder", backend)
}
