//! Hooks of the builder: error rules, hooks for failures and events, and the external lock service.

use std::error::Error as StdError;
use std::sync::Arc;

use super::Builder;
use crate::engine::{FailedAttempt, GivenUpMessage};
use crate::event::Event;
use crate::handler::Outcome;
use crate::lock::Locks;

impl Builder {
    /// Adds a rule that maps errors of a type to outcomes, for all handlers and anywhere in the chain of causes.
    /// When a rule returns `None` the next one decides, and finally the retry policy.
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

    /// Adds a hook for every failed attempt. It runs synchronously, so it must be fast, and its effect is lost in a
    /// crash. For work that must not be lost publish a message that follows the failure.
    pub fn on_failure(mut self, hook: impl Fn(&FailedAttempt<'_>) + Send + Sync + 'static) -> Self {
        self.hooks.failure.push(Arc::new(hook));
        self
    }

    /// Adds a hook for every message that became a dead letter, after it is stored. It runs synchronously like
    /// [`Builder::on_failure`].
    pub fn on_exhausted(
        mut self,
        hook: impl Fn(&GivenUpMessage<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.hooks.exhausted.push(Arc::new(hook));
        self
    }

    /// Adds a hook for every event of this process, without loss: for metrics, which must be exact. It runs
    /// synchronously, so it must be fast. A slow listener that may miss events uses
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

    /// Sets an external lock service, used around every run of a job in addition to the claim of the storage.
    pub fn locks(mut self, locks: Arc<dyn Locks>) -> Self {
        self.locks = Some(locks);
        self
    }
}
