//! Counter of changes on this node that end sessions or tokens, so that open event streams are checked immediately.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of changes since the start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes(Arc<AtomicU64>);

impl Changes {
    /// Counts a change.
    pub(super) fn note(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of changes.
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
