//! Inbox contract: the deliveries that a group has already handled. Delivery is at least
//! once, so a handler may receive a message twice; the inbox detects it.
//!
//! When the record is written in the same transaction as the handler's own writes, the effects happen
//! exactly once; the storages offer that in addition to this contract. [`Deduplicate`](crate::Deduplicate)
//! uses the inbox around every attempt, for handlers that write to another system.

use async_trait::async_trait;
use jiff::Timestamp;

use crate::error::Result;
use crate::model::MessageId;

/// Records the messages that a group has handled.
#[async_trait]
pub trait Inbox: Send + Sync + 'static {
    /// Returns whether there is a record that a group has handled a message.
    async fn has_seen(&self, group: &str, message: MessageId) -> Result<bool>;

    /// Records that a group handles a message. Of several calls for one pair, also concurrent ones, exactly
    /// one returns [`InboxResult::First`].
    async fn admit(&self, group: &str, message: MessageId, now: Timestamp) -> Result<InboxResult>;

    /// Deletes up to `limit` records made strictly before an instant; returns their number.
    async fn forget(&self, before: Timestamp, limit: usize) -> Result<u64>;
}

/// The result of recording a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a repeated delivery must not be handled again"]
pub enum InboxResult {
    /// It is the first delivery of the message to the group.
    First,
    /// The message was recorded before.
    Again,
}
