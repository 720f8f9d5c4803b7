//! Cancellation: the signal that asks a running handler to stop, with its cause. The first cause wins; a handler
//! that ignores the signal is dropped after its grace period.

use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::Notify;

use super::Context;

/// Why a handler is asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelCause {
    /// Its timeout has passed.
    Timeout,
    /// The process stops; the message is released without counting the attempt, or becomes a dead letter with
    /// [`WhenInterrupted::Lost`](crate::model::WhenInterrupted::Lost).
    Shutdown,
    /// Another process owns the message; the result of this attempt is ignored.
    LeaseLost,
    /// An operator cancelled it.
    Cancelled,
}

impl CancelCause {
    const ALL: [Self; 4] = [Self::Timeout, Self::Shutdown, Self::LeaseLost, Self::Cancelled];

    fn code(self) -> u8 {
        match self {
            Self::Timeout => 1,
            Self::Shutdown => 2,
            Self::LeaseLost => 3,
            Self::Cancelled => 4,
        }
    }
}

/// The cancellation of one attempt, for a handler that needs nothing else of its context. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Cancellation {
    context: Context,
}

impl Cancellation {
    pub(super) fn new(context: Context) -> Self {
        Self { context }
    }

    /// Returns whether the handler is asked to stop; for loops that cannot wait.
    pub fn is_requested(&self) -> bool {
        self.cause().is_some()
    }

    /// Returns why the handler is asked to stop; `None` while it is not.
    pub fn cause(&self) -> Option<CancelCause> {
        self.context.cancel_cause()
    }

    /// Waits until the handler is asked to stop. Cancel-safe; meant for `select!`.
    pub async fn cancelled(&self) -> CancelCause {
        self.context.cancelled().await
    }
}

/// A signal that is sent at most once.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    cause: AtomicU8,
    waiting: Notify,
}

impl Signal {
    /// Sends the signal; returns whether it was the first.
    pub(crate) fn cancel(&self, cause: CancelCause) -> bool {
        let first = self
            .cause
            .compare_exchange(0, cause.code(), Ordering::AcqRel, Ordering::Acquire)
            .is_ok();
        if first {
            self.waiting.notify_waiters();
        }
        first
    }

    /// Returns the cause; `None` before the signal.
    pub(crate) fn cause(&self) -> Option<CancelCause> {
        let code = self.cause.load(Ordering::Acquire);
        CancelCause::ALL.into_iter().find(|cause| cause.code() == code)
    }

    /// Waits for the signal. Cancel-safe.
    pub(crate) async fn cancelled(&self) -> CancelCause {
        loop {
            let notified = self.waiting.notified();
            if let Some(cause) = self.cause() {
                return cause;
            }
            notified.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_cause_wins_and_is_not_missed() {
        let cancellation = Signal::default();
        assert_eq!(cancellation.cause(), None);
        assert!(cancellation.cancel(CancelCause::Timeout));
        assert!(!cancellation.cancel(CancelCause::Shutdown));
        assert_eq!(cancellation.cancelled().await, CancelCause::Timeout);
    }
}
