//! Handlers that block their thread: a plain function on tokio's blocking pool. It cannot be dropped,
//! only asked: when its attempt has ended without it, by a timeout or a shutdown, it runs on until it
//! returns. Until then its slot stays taken, so that stuck calls do not pile up, and what it returns
//! counts no more: the attempt is settled, and the fence refuses a second settlement.

use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, ready};

use tokio::task::JoinHandle;

use super::arguments::WrappedArguments;
use super::function::Function;
use super::{Context, HandlerError, HandlerResult, IntoOutcome};
use crate::engine::Slot;

/// A plain function as a handler, made by [`blocking`].
#[derive(Clone, Copy, Debug)]
pub struct Blocking<F> {
    function: F,
}

/// Turns a plain function into a handler that runs on a thread where blocking is allowed.
///
/// It takes the same arguments as an `async fn` would. A panic is a failed attempt. It is asked to
/// stop like any other handler ([`Context::cancel_cause`],
/// [`Cancellation`](super::Cancellation)), but it cannot be dropped: past its timeout and grace the
/// attempt counts as timed out, at shutdown it is given back, and in both cases the call runs on
/// until it returns. Until then its slot of the queue stays taken; what it returns then is not used.
/// The message may meanwhile run again, here or elsewhere, so a call that may be long asks whether it
/// still should go on.
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
    /// What it returns.
    type Answer;

    /// Calls it.
    fn call(&self, arguments: A) -> Self::Answer;
}

macro_rules! plain_functions {
    ($($Type:ident),*) => {
        impl<Call, Answer, $($Type),*> PlainFunction<($($Type,)*)> for Call
        where
            Call: Fn($($Type),*) -> Answer,
        {
            type Answer = Answer;

            #[allow(non_snake_case)] // a variable per type, named like it
            fn call(&self, ($($Type,)*): ($($Type,)*)) -> Answer {
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
    F::Answer: IntoOutcome,
    A: Send + 'static,
{
    type Future = Call;

    fn call(
        this: &Arc<Self>,
        WrappedArguments { arguments, context }: WrappedArguments<A>,
    ) -> Call {
        let this = this.clone();
        let slot = Arc::new(KeptSlot::default());
        // Dropped when the function has returned or panicked, and when it never began.
        let returned = Returned { slot: slot.clone() };
        let running = tokio::task::spawn_blocking(move || {
            let _returned = returned;
            this.function.call(arguments).into_outcome()
        });
        Call { running, context, slot }
    }
}

/// A call on its way.
#[derive(Debug)]
pub struct Call {
    running: JoinHandle<HandlerResult>,
    context: Context,
    slot: Arc<KeptSlot>,
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
    /// A call that has not returned keeps a slot; one that never began does not begin any more.
    fn drop(&mut self) {
        self.running.abort();
        self.slot.keep(|| self.context.more_slots());
    }
}

/// The slot of a call that outlives its attempt.
#[derive(Debug, Default)]
struct KeptSlot {
    state: Mutex<Kept>,
}

#[derive(Debug, Default)]
enum Kept {
    #[default]
    No,
    Yes {
        _slot: Option<Slot>,
    },
    Over,
}

impl KeptSlot {
    fn keep(&self, take: impl FnOnce() -> Option<Slot>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, Kept::No) {
            *state = Kept::Yes { _slot: take() };
        }
    }

    fn over(&self) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = Kept::Over;
    }
}

/// Gives a kept slot back when the function has returned.
struct Returned {
    slot: Arc<KeptSlot>,
}

impl Drop for Returned {
    fn drop(&mut self) {
        self.slot.over();
    }
}
