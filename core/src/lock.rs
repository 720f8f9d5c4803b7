//! Lock contract: an external lock service as one more layer around the runs of jobs, for applications that
//! have one. The storage's claim remains what decides.

use std::time::Duration;

use async_trait::async_trait;

use crate::error::Result;
use crate::model::JobName;

/// How long a lock is held unless a job sets `lock_duration`.
pub const LOCK_DURATION_DEFAULT: Duration = Duration::from_secs(300);

/// Gives out locks by name.
#[async_trait]
pub trait Locks: Send + Sync + 'static {
    /// Acquires a lock for a duration; returns `None` when another owner has it. Must not wait.
    async fn acquire(&self, name: &str, length: Duration) -> Result<Option<Box<dyn Lock>>>;
}

/// A held lock.
#[async_trait]
pub trait Lock: Send {
    /// Extends it from now on; returns whether it is still held.
    async fn extend(&mut self, length: Duration) -> Result<bool>;

    /// Releases it.
    async fn release(self: Box<Self>) -> Result<()>;
}

/// The name of a job's lock.
pub fn lock_name(job: &JobName) -> String {
    format!("messaging:job:{job}")
}
