//! The contract of an inbox: which deliveries a group has already dealt with. Delivery is at least
//! once, so a handler may see a message twice; the inbox tells it so.
//!
//! Noted in the same transaction as the handler's own writes, the effects happen exactly once; the
//! storages offer that beside this contract. [`Deduplicate`](crate::Deduplicate) uses it around every
//! attempt, for handlers that write elsewhere.

use async_trait::async_trait;
use jiff::Timestamp;

use crate::error::Result;
use crate::model::MessageId;

/// Remembers which messages a group has dealt with.
#[async_trait]
pub trait Inbox: Send + Sync + 'static {
    /// Whether a group has dealt with a message, as far as is remembered.
    async fn has_seen(&self, group: &str, message: MessageId) -> Result<bool>;

    /// Notes that a group deals with a message. Of many calls for one pair one is answered
    /// [`InboxResult::First`], also when they come at once.
    async fn admit(&self, group: &str, message: MessageId, now: Timestamp) -> Result<InboxResult>;

    /// Forgets at most `limit` notes made strictly before an instant; answers how many.
    async fn forget(&self, before: Timestamp, limit: usize) -> Result<u64>;
}

/// Whether a delivery is new to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a repeated delivery must not be handled again"]
pub enum InboxResult {
    /// The first one.
    First,
    /// It was noted before.
    Again,
}
