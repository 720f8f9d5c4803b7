//! Conformance suite for storages, on the memory storage. All nodes use the same storage, because memory
//! cannot be shared otherwise.

use std::process::ExitCode;
use std::sync::Arc;

use async_trait::async_trait;
use punctual::{MemoryStorage, Result};
use punctual_conformance::storage::{self, Backend, Environment, Node};

struct Memory(Arc<MemoryStorage>);

#[async_trait]
impl Environment for Memory {
    async fn open(&self) -> Result<Node> {
        Ok(Node::new(Arc::clone(&self.0)))
    }
}

// spec: H-59
fn main() -> ExitCode {
    let backend =
        Backend::local(
            |clock| async move { Ok(Memory(Arc::new(MemoryStorage::new(Arc::new(clock))))) },
        );
    storage::run("memory", backend.uses_test_clock().notifies_between_nodes())
}
