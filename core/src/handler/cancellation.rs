//! The signal that asks a running handler to stop, and why. The first cause wins; a handler that
//! does not listen is dropped after its grace.

use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::Notify;

use super::Context;

/// Why a handler is asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It takes longer than it may.
    Timeout,
    /// The process stops; the work is given back and costs no attempt, or is dead where its terms say
    /// [`WhenInterrupted::Lost`](crate::model::WhenInterrupted::Lost).
    Shutdown,
    /// The message belongs to another process now; nothing this handler does counts any more.
    LeaseLost,
    /// An operator cancelled it.
    Cancelled,
}

impl Cause {
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

/// The signal of one attempt, for a handler that wants nothing else of its context. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Cancellation {
    context: Context,
}

impl Cancellation {
    pub(super) fn new(context: Context) -> Self {
        Self { context }
    }

    /// Whether the handler is asked to stop; for loops that cannot wait.
    pub fn is_requested(&self) -> bool {
        self.cause().is_some()
    }

    /// Why the handler is asked to stop, if it is.
    pub fn cause(&self) -> Option<Cause> {
        self.context.cancel_cause()
    }

    /// Waits until the handler is asked to stop. Cancel-safe; meant for `select!`.
    pub async fn cancelled(&self) -> Cause {
        self.context.cancelled().await
    }
}

/// A signal that is given at most once.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    cause: AtomicU8,
    waiting: Notify,
}

impl Signal {
    /// Gives the signal; answers whether it was the first.
    pub(crate) fn cancel(&self, cause: Cause) -> bool {
        let first = self
            .cause
            .compare_exchange(0, cause.code(), Ordering::AcqRel, Ordering::Acquire)
            .is_ok();
        if first {
            self.waiting.notify_waiters();
        }
        first
    }

    /// Why the handler was asked to stop, if it was.
    pub(crate) fn cause(&self) -> Option<Cause> {
        let code = self.cause.load(Ordering::Acquire);
        Cause::ALL.into_iter().find(|cause| cause.code() == code)
    }

    /// Waits for the signal. Cancel-safe.
    pub(crate) async fn cancelled(&self) -> Cause {
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
        assert!(cancellation.cancel(Cause::Timeout));
        assert!(!cancellation.cancel(Cause::Shutdown));
        assert_eq!(cancellation.cancelled().await, Cause::Timeout);
    }
}
