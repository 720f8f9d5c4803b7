//! Counts what ends sessions and tokens on this node, so that open event streams are checked at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many changes there were.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes(Arc<AtomicU64>);

impl Changes {
    /// One more.
    pub(super) fn note(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// So many until now.
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
