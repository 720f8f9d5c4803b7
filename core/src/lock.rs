//! The contract of an external lock: one more layer around the runs of jobs, for those who have such a
//! service and want it asked. The storage's claim stays what really decides.

use std::time::Duration;

use async_trait::async_trait;

use crate::error::Result;
use crate::model::JobName;

/// How long a lock is asked for unless a job says otherwise.
pub const LOCK_DURATION_DEFAULT: Duration = Duration::from_secs(300);

/// Gives out locks by name.
#[async_trait]
pub trait Locks: Send + Sync + 'static {
    /// Takes a lock for a length of time, or answers none when somebody else has it. Must not wait.
    async fn acquire(&self, name: &str, length: Duration) -> Result<Option<Box<dyn Lock>>>;
}

/// A lock in hand.
#[async_trait]
pub trait Lock: Send {
    /// Keeps it for so long from now on; answers whether it is still ours.
    async fn extend(&mut self, length: Duration) -> Result<bool>;

    /// Gives it back.
    async fn release(self: Box<Self>) -> Result<()>;
}

/// The name of a job's lock.
pub fn lock_name(job: &JobName) -> String {
    format!("messaging:job:{job}")
}
