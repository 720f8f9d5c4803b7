//! Inbox contract: which deliveries a group has already handled. Delivery is at least
//! once, so a handler may receive a message twice; the inbox detects it.
//!
//! Recorded in the same transaction as the handler's own writes, the effects happen exactly once; the
//! storages offer that beside this contract. [`Deduplicate`](crate::Deduplicate) uses it around every
//! attempt, for handlers that write elsewhere.

use async_trait::async_trait;
use jiff::Timestamp;

use crate::error::Result;
use crate::model::MessageId;

/// Remembers which messages a group has handled.
#[async_trait]
pub trait Inbox: Send + Sync + 'static {
    /// Returns whether a group has handled a message, as far as is remembered.
    async fn has_seen(&self, group: &str, message: MessageId) -> Result<bool>;

    /// Records that a group handles a message. Of many calls for one pair one returns
    /// [`InboxResult::First`], also when they come at once.
    async fn admit(&self, group: &str, message: MessageId, now: Timestamp) -> Result<InboxResult>;

    /// Deletes at most `limit` records made strictly before an instant; returns how many.
    async fn forget(&self, before: Timestamp, limit: usize) -> Result<u64>;
}

/// Whether a delivery is new to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a repeated delivery must not be handled again"]
pub enum InboxResult {
    /// The first one.
    First,
    /// It was recorded before.
    Again,
}
