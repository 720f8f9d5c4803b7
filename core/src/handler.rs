//! The contract of a handler: one message and its context in, an outcome out. Outcomes are values,
//! the only ways to steer; any error means "failed, ask the retry policy".

mod cancellation;
mod context;
mod outcome;

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;

pub use cancellation::{Cancellation, Cause};
pub use context::Context;
pub(crate) use context::ContextParts;
pub use outcome::{HandlerError, HandlerResult, IntoOutcome, Outcome};

use crate::error::Result;
use crate::model::{Body, Message};

/// Deals with messages whose body reads as `M`.
///
/// Every `async fn(M, Context) -> R` is a handler when `R` is `()`, an [`Outcome`], or a `Result` of
/// either. A type may implement it instead, to carry what it needs:
///
/// ```
/// use punctual::{Context, Handler, HandlerResult, Outcome};
///
/// struct Mailer { sender: String }
///
/// impl Handler<String> for Mailer {
///     async fn handle(&self, to: String, context: Context) -> HandlerResult {
///         println!("{} writes to {to}, attempt {}", self.sender, context.attempt());
///         Ok(Outcome::Done)
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler of `{M}`",
    label = "not an `async fn({M}, Context) -> R`",
    note = "a handler takes the payload by value and a `punctual::Context`, is `Send + Sync + 'static`, and returns `()`, `Outcome`, or a `Result` of either"
)]
pub trait Handler<M>: Send + Sync + 'static {
    /// Deals with one message. Called again for every attempt; must be safe to run twice, because
    /// delivery is at least once.
    fn handle(&self, message: M, context: Context) -> impl Future<Output = HandlerResult> + Send;
}

impl<M, F, Fut> Handler<M> for F
where
    F: Fn(M, Context) -> Fut + Send + Sync + 'static,
    Fut: Future + Send,
    Fut::Output: IntoOutcome,
    M: Send + 'static,
{
    async fn handle(&self, message: M, context: Context) -> HandlerResult {
        self(message, context).await.into_outcome()
    }
}

/// A handler whose payload type is forgotten: what the registry keeps.
pub(crate) trait AnyHandler: Send + Sync + 'static {
    /// Reads the payload; fails when it does not fit, before anything has run.
    fn prepare(&self, message: &Message) -> Result<Prepared<'_>>;
}

/// A call that only needs its context.
pub(crate) type Prepared<'a> = Box<dyn FnOnce(Context) -> BoxFuture<'a, HandlerResult> + Send + 'a>;

struct Typed<M, H> {
    handler: H,
    payload: PhantomData<fn(M)>,
}

impl<M, H> AnyHandler for Typed<M, H>
where
    M: DeserializeOwned + Send + 'static,
    H: Handler<M>,
{
    fn prepare(&self, message: &Message) -> Result<Prepared<'_>> {
        let payload = read::<M>(message)?;
        Ok(Box::new(move |context| Box::pin(self.handler.handle(payload, context))))
    }
}

/// The payload a handler receives: the body, or without one nothing at all, or the occurrence for a
/// handler that takes that.
fn read<M: DeserializeOwned>(message: &Message) -> Result<M> {
    let nothing = message.body.read::<M>();
    match &message.occurrence {
        Some(occurrence) if nothing.is_err() && message.body.bytes.is_empty() => {
            Body::json(occurrence)?.read()
        }
        _ => nothing,
    }
}

/// Forgets the payload type of a handler.
pub(crate) fn erase<M, H>(handler: H) -> Arc<dyn AnyHandler>
where
    M: DeserializeOwned + Send + 'static,
    H: Handler<M>,
{
    Arc::new(Typed { handler, payload: PhantomData })
}
