//! The suite for transports, over the memory transport. Its nodes share one storage: memory has no other
//! way to be shared.

use std::process::ExitCode;
use std::sync::Arc;

use async_trait::async_trait;
use punctual::{MemoryStorage, Result, SystemClock, Transport};
use punctual_conformance::transport::{self, Backend, Need, Place, Stores};

struct Memory(Arc<MemoryStorage>);

#[async_trait]
impl Place for Memory {
    async fn open(&self) -> Result<Arc<dyn Transport>> {
        Ok(transport::over(self.0.clone()))
    }

    async fn stores(&self) -> Result<Option<Stores>> {
        Ok(Some((self.0.clone(), self.0.clone())))
    }
}

fn main() -> ExitCode {
    let backend =
        Backend::here(|| async { Ok(Memory(Arc::new(MemoryStorage::new(Arc::new(SystemClock))))) });
    let backend = backend
        .cannot(Need::Put, "nobody but Punctual writes into a storage's lines")
        .cannot(Need::Restart, "memory ends with its process")
        .cannot(Need::Cut, "memory has no connection")
        .cannot(Need::SlowDown, "memory has no network");
    transport::run("memory", backend)
}
