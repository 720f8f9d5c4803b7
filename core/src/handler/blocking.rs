//! Blocking handlers: plain functions on tokio's blocking pool. Such a function cannot be dropped, only asked to
//! stop: after a timeout or a shutdown has ended its attempt it runs until it returns. Until then it occupies its
//! slot, so that stuck calls do not accumulate. Its result is ignored, because the attempt is already settled.

use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, ready};

use tokio::task::JoinHandle;

use super::arguments::WrappedArguments;
use super::function::Function;
use super::{Context, HandlerError, HandlerResult, IntoOutcome};
use crate::handler::Slot;

/// A plain function as a handler, made by [`blocking`].
#[derive(Clone, Copy, Debug)]
pub struct Blocking<F> {
    function: F,
}

/// Turns a plain function into a handler that runs on a thread where blocking is allowed.
///
/// It takes the same arguments as an `async fn` would. A panic is a failed attempt. It is asked to stop like any
/// other handler ([`Context::cancel_cause`], [`Cancellation`](super::Cancellation)), but it cannot be dropped:
/// after its timeout and grace period the attempt counts as timed out, at a shutdown the message is released, and
/// in both cases the call runs until it returns. Until then it occupies its slot of the queue, and its result is
/// ignored. The message may meanwhile run again in this or another process, so a long call should check for
/// cancellation.
///
/// ```
/// use punctual::{Cancellation, Punctual, blocking};
///
/// fn compress(path: String, cancellation: Cancellation) -> Result<(), std::io::Error> {
///     let bytes = std::fs::read(path)?;
///     for chunk in bytes.chunks(4_096) {
///         if cancellation.is_requested() {
///             return Err(std::io::ErrorKind::Interrupted.into());
///         }
///         // ...
/// #       let _ = chunk;
///     }
///     Ok(())
/// }
///
/// let punctual = Punctual::builder().handler("compress", blocking(compress)).build();
/// assert!(punctual.is_ok());
/// ```
pub fn blocking<F>(function: F) -> Blocking<F> {
    Blocking { function }
}

/// A plain function that can be called with a list of arguments.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a function with up to nine arguments",
    label = "not a plain function",
    note = "a blocking handler is a plain `fn` whose arguments are taken by value: the payload, then up to eight extractors"
)]
pub trait PlainFunction<A> {
    /// The returned type.
    type Returned;

    /// Calls it.
    fn call(&self, arguments: A) -> Self::Returned;
}

macro_rules! plain_functions {
    ($($Type:ident),*) => {
        impl<Call, Returned, $($Type),*> PlainFunction<($($Type,)*)> for Call
        where
            Call: Fn($($Type),*) -> Returned,
        {
            type Returned = Returned;

            #[allow(non_snake_case)] // a variable per type, named like it
            fn call(&self, ($($Type,)*): ($($Type,)*)) -> Returned {
                self($($Type),*)
            }
        }
    };
}

plain_functions!();
plain_functions!(A);
plain_functions!(A, B);
plain_functions!(A, B, C);
plain_functions!(A, B, C, D);
plain_functions!(A, B, C, D, E);
plain_functions!(A, B, C, D, E, F);
plain_functions!(A, B, C, D, E, F, G);
plain_functions!(A, B, C, D, E, F, G, H);
plain_functions!(A, B, C, D, E, F, G, H, I);

impl<F, A> Function<WrappedArguments<A>> for Blocking<F>
where
    F: PlainFunction<A> + Send + Sync + 'static,
    F::Returned: IntoOutcome,
    A: Send + 'static,
{
    type Future = Call;

    fn call(
        this: &Arc<Self>,
        WrappedArguments { arguments, context }: WrappedArguments<A>,
    ) -> Call {
        let this = this.clone();
        let slot = Arc::new(RetainedSlot::default());
        // Dropped when the function has returned or panicked, and when it never began.
        let guard = ReleaseGuard { slot: slot.clone() };
        let running = tokio::task::spawn_blocking(move || {
            let _guard = guard;
            this.function.call(arguments).into_outcome()
        });
        Call { running, context, slot }
    }
}

/// The future of a call on the blocking pool.
#[derive(Debug)]
pub struct Call {
    running: JoinHandle<HandlerResult>,
    context: Context,
    slot: Arc<RetainedSlot>,
}

impl Future for Call {
    type Output = HandlerResult;

    fn poll(mut self: Pin<&mut Self>, waker: &mut std::task::Context<'_>) -> Poll<HandlerResult> {
        Poll::Ready(match ready!(Pin::new(&mut self.running).poll(waker)) {
            Ok(result) => result,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                Err(error) => Err(HandlerError::from(error)),
            },
        })
    }
}

impl Drop for Call {
    /// A call that has not returned retains a slot; one that has not begun is cancelled.
    fn drop(&mut self) {
        self.running.abort();
        self.slot.retain(|| self.context.take_slot());
    }
}

/// The slot of a call that outlives its attempt.
#[derive(Debug, Default)]
struct RetainedSlot {
    state: Mutex<SlotState>,
}

#[derive(Debug, Default)]
enum SlotState {
    /// The attempt has the slot.
    #[default]
    OfAttempt,
    /// The attempt has ended and the call retains a slot.
    Retained { _slot: Option<Slot> },
    /// The call has returned.
    Released,
}

impl RetainedSlot {
    fn retain(&self, take: impl FnOnce() -> Option<Slot>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, SlotState::OfAttempt) {
            *state = SlotState::Retained { _slot: take() };
        }
    }

    fn release(&self) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = SlotState::Released;
    }
}

/// Releases a retained slot when the function has returned.
struct ReleaseGuard {
    slot: Arc<RetainedSlot>,
}

impl Drop for ReleaseGuard {
    fn drop(&mut self) {
        self.slot.release();
    }
}
