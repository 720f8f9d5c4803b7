//! What a builder is told about errors, events and locks: rules, hooks, an external lock.

use std::error::Error as StdError;
use std::sync::Arc;

use super::Builder;
use crate::engine::{FailedAttempt, GivenUpMessage};
use crate::event::Event;
use crate::handler::Outcome;
use crate::lock::Locks;

impl Builder {
    /// What errors of a type mean, whatever handler returned them, and wherever in the chain of causes
    /// they are. A rule that answers nothing leaves it to the next one, and in the end to the retry
    /// policy.
    ///
    /// ```
    /// use std::time::Duration;
    /// use punctual::{Outcome, Punctual};
    ///
    /// let builder = Punctual::builder().on_error(|error: &std::io::Error| match error.kind() {
    ///     std::io::ErrorKind::NotFound => Some(Outcome::Discard(String::new())),
    ///     std::io::ErrorKind::TimedOut => Some(Outcome::RetryAfter(Duration::from_secs(60))),
    ///     _ => None,
    /// });
    /// # assert!(builder.build().is_ok());
    /// ```
    pub fn on_error<E: StdError + 'static>(
        mut self,
        rule: impl Fn(&E) -> Option<Outcome> + Send + Sync + 'static,
    ) -> Self {
        self.rules.add(rule);
        self
    }

    /// Hears of every attempt that failed, at once and on the spot: be quick, and count on nothing. What
    /// must not be lost belongs into a message that follows the failure.
    pub fn on_failure(mut self, hook: impl Fn(&FailedAttempt<'_>) + Send + Sync + 'static) -> Self {
        self.hooks.failure.push(Arc::new(hook));
        self
    }

    /// Hears of every message that was given up, once its dead letter is stored. The same advice holds.
    pub fn on_exhausted(
        mut self,
        hook: impl Fn(&GivenUpMessage<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.hooks.exhausted.push(Arc::new(hook));
        self
    }

    /// Hears of every event of this process, at once and on the spot, and misses none: for meters, which
    /// must be right. Be quick. Whoever may be slow and may miss some listens to
    /// [`Events::listen`](crate::Events::listen) instead.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use punctual::{Event, Punctual};
    ///
    /// let dead = Arc::new(AtomicU64::new(0));
    /// let counted = dead.clone();
    /// let builder = Punctual::builder().on_event(move |event| {
    ///     if let Event::MessageDead { .. } = event {
    ///         counted.fetch_add(1, Ordering::Relaxed);
    ///     }
    /// });
    /// # assert!(builder.build().is_ok());
    /// ```
    pub fn on_event(mut self, hook: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.events.on_event(hook);
        self
    }

    /// An external lock that is asked for around every run of a job, beside the storage's own claim.
    pub fn locks(mut self, locks: Arc<dyn Locks>) -> Self {
        self.locks = Some(locks);
        self
    }
}
