//! The suite for storages, over the memory storage. Its nodes are the same storage: memory has no
//! other way to be shared.

use std::process::ExitCode;
use std::sync::Arc;

use async_trait::async_trait;
use punctual::{MemoryStorage, Result};
use punctual_conformance::storage::{self, Backend, Node, Place};

struct Memory(Arc<MemoryStorage>);

#[async_trait]
impl Place for Memory {
    async fn open(&self) -> Result<Node> {
        Ok(Node::new(Arc::clone(&self.0)))
    }
}

// spec: H-59
fn main() -> ExitCode {
    let backend =
        Backend::here(
            |clock| async move { Ok(Memory(Arc::new(MemoryStorage::new(Arc::new(clock))))) },
        );
    storage::run("memory", backend.follows_the_clock().rings_between_nodes())
}
