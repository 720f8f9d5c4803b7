//! Lock contract: an optional external lock service around the runs of jobs. The claim of the storage still
//! decides which process runs a job.

use std::time::Duration;

use async_trait::async_trait;

use crate::error::Result;
use crate::model::JobName;

/// Default duration of a lock, unless a job sets `lock_duration`.
pub(crate) const LOCK_DURATION_DEFAULT: Duration = Duration::from_secs(300);

/// Acquires locks by name.
#[async_trait]
pub trait Locks: Send + Sync + 'static {
    /// Acquires a lock for a duration; returns `None` when another owner has it. Must not wait.
    async fn acquire(&self, name: &str, duration: Duration) -> Result<Option<Box<dyn Lock>>>;
}

/// A held lock.
#[async_trait]
pub trait Lock: Send {
    /// Extends it to a duration from now; returns whether it is still held.
    async fn extend(&mut self, duration: Duration) -> Result<bool>;

    /// Releases it.
    async fn release(self: Box<Self>) -> Result<()>;
}

/// Returns the name of a job's lock.
pub(crate) fn lock_name(job: &JobName) -> String {
    format!("messaging:job:{job}")
}
