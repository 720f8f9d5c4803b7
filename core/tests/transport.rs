//! Conformance suite for transports, on the memory transport. All nodes use one storage, because memory
//! cannot be shared otherwise.

use std::process::ExitCode;
use std::sync::Arc;

use async_trait::async_trait;
use punctual::{MemoryStorage, Result, SystemClock, Transport};
use punctual_conformance::transport::{self, Backend, Environment, Need, Stores};

struct Memory(Arc<MemoryStorage>);

#[async_trait]
impl Environment for Memory {
    async fn open(&self) -> Result<Arc<dyn Transport>> {
        Ok(transport::over(self.0.clone()))
    }

    async fn stores(&self) -> Result<Option<Stores>> {
        Ok(Some((self.0.clone(), self.0.clone())))
    }
}

fn main() -> ExitCode {
    let backend = Backend::local(|| async {
        Ok(Memory(Arc::new(MemoryStorage::new(Arc::new(SystemClock)))))
    });
    let backend = backend
        .cannot(Need::ForeignMessages, "only Punctual writes to a storage")
        .cannot(Need::Restart, "memory ends with its process")
        .cannot(Need::Cut, "memory has no connection")
        .cannot(Need::SlowDown, "memory has no network");
    transport::run("memory", backend)
}
