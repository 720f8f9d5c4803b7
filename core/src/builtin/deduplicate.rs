//! Deduplication middleware: a group handles every message once, as far as its inbox remembers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use crate::handler::{Context, HandlerResult, Outcome};
use crate::inbox::{Inbox, InboxResult};
use crate::middleware::{Middleware, NextHandle};
use crate::model::time::{add, subtract};

/// Default retention of a delivery record.
const RETENTION_DEFAULT: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Interval between deletions of old records, and the number deleted per call.
const FORGET_INTERVAL: Duration = Duration::from_secs(60);
const FORGET_MAX: usize = 1_000;

/// Skips the handler for a message that the group has handled before.
///
/// A message is recorded when its handler is done, so a failed attempt is retried; after a crash between the
/// handler's end and the record the handler runs again. A handler that must not repeat records the message
/// inside its own transaction instead. Records older than [`Deduplicate::retention`] are deleted on the way.
pub struct Deduplicate {
    inbox: Arc<dyn Inbox>,
    group: String,
    retention: Duration,
    forget_at: Mutex<Timestamp>,
}

impl Deduplicate {
    /// Returns the middleware for a group, which is usually the name of the application.
    pub fn new(inbox: Arc<dyn Inbox>, group: impl Into<String>) -> Self {
        Self {
            inbox,
            group: group.into(),
            retention: RETENTION_DEFAULT,
            forget_at: Mutex::new(Timestamp::MIN),
        }
    }

    /// Sets how long a delivery is remembered, default seven days. It must exceed the longest time until a
    /// redelivery.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    /// Returns whether it is time to delete old records; true for one caller per interval.
    fn forgets(&self, now: Timestamp) -> bool {
        let mut forget_at = self.forget_at.lock().unwrap_or_else(PoisonError::into_inner);
        let due = now >= *forget_at;
        if due {
            *forget_at = add(now, FORGET_INTERVAL);
        }
        due
    }
}

#[async_trait]
impl Middleware for Deduplicate {
    async fn around_handle(&self, context: Context, next: NextHandle<'_>) -> HandlerResult {
        let (message, now) = (context.message_id(), context.started_at());
        if self.inbox.has_seen(&self.group, message).await? {
            return Ok(Outcome::Done);
        }
        let outcome = next.run(context).await?;
        if outcome == Outcome::Done {
            // Another process may have recorded it meanwhile; the handler's work cannot be undone here.
            let (InboxResult::First | InboxResult::Again) =
                self.inbox.admit(&self.group, message, now).await?;
        }
        if self.forgets(now) {
            // Deleting old records is housekeeping: a failure here must not fail the attempt.
            let _ = self.inbox.forget(subtract(now, self.retention), FORGET_MAX).await;
        }
        Ok(outcome)
    }
}
