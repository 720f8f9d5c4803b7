//! The contract of an outbox: a transaction the caller has opened, in which messages are stored
//! together with the caller's own writes. They are invisible until it commits, gone when it rolls
//! back, and due like all others afterwards.
//!
//! A storage makes one out of a transaction of its database; [`Publish::in_tx`](crate::client::Publish::in_tx)
//! and [`Once::in_tx`](crate::client::Once::in_tx) take it.

use std::future::Future;

use jiff::Timestamp;

use crate::error::Result;
use crate::storage::{EnqueueResult, Entry};

/// Stores messages inside the caller's own transaction.
///
/// Not a trait object: whether the future may move between threads is up to the transaction's driver.
pub trait Outbox {
    /// Stores a batch like [`Storage::enqueue`](crate::Storage::enqueue) does, for the time being. After
    /// an error the transaction must be rolled back.
    fn enqueue(
        &mut self,
        entries: Vec<Entry>,
        now: Timestamp,
    ) -> impl Future<Output = Result<Vec<EnqueueResult>>>;
}
