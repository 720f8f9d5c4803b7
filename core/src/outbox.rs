//! Outbox contract: stores messages in a transaction of the caller, together with the caller's own writes.
//! The messages are invisible until it commits and are discarded when it rolls back.
//!
//! A storage creates an outbox from a transaction of its database; [`Publish::in_tx`](crate::client::Publish::in_tx)
//! and [`Once::in_tx`](crate::client::Once::in_tx) take it.

use std::future::Future;

use jiff::Timestamp;

use crate::error::Result;
use crate::storage::{EnqueueResult, Entry};

/// Stores messages inside the caller's own transaction.
///
/// Not a trait object, because the driver of the transaction decides whether the future is `Send`.
pub trait Outbox {
    /// Stores a batch as [`Storage::enqueue`](crate::Storage::enqueue) does, once the transaction commits.
    /// After an error the transaction must be rolled back.
    fn enqueue(
        &mut self,
        entries: Vec<Entry>,
        now: Timestamp,
    ) -> impl Future<Output = Result<Vec<EnqueueResult>>>;
}
