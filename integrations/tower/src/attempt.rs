//! Attempt: the request type of the layers, and the service below them, which starts the inner part of
//! the chain (further middleware and the handler). That part borrows from the process, and requests of
//! tower own their data; so an attempt has one end of two channels and the middleware has the other.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context as Task, Poll};

use punctual::{Context, HandlerError, HandlerResult, Outcome};
use tokio::sync::oneshot;
use tower_service::Service;

/// Any error, in the form that layers of tower use.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// One attempt as a request of the layers. It cannot be cloned, because it runs once:
///
/// ```compile_fail
/// fn twice(attempt: &punctual_tower::Attempt) -> punctual_tower::Attempt {
///     attempt.clone()
/// }
/// ```
#[derive(Debug)]
pub struct Attempt {
    context: Context,
    started: oneshot::Sender<Context>,
    result: oneshot::Receiver<HandlerResult>,
}

/// The middleware's ends of the channels of an attempt.
pub(crate) struct AttemptChannels {
    /// Receives the context when the layers call the inner service.
    pub(crate) started: oneshot::Receiver<Context>,
    /// Returns the result to the inner service. Closed when the layers dropped the call.
    pub(crate) result: oneshot::Sender<HandlerResult>,
}

impl Attempt {
    pub(crate) fn new(context: Context) -> (Self, AttemptChannels) {
        let (started, started_receiver) = oneshot::channel();
        let (result, result_receiver) = oneshot::channel();
        (
            Self { context, started, result: result_receiver },
            AttemptChannels { started: started_receiver, result },
        )
    }

    /// Returns the context of the attempt: topic, job, attempt, headers.
    pub fn context(&self) -> &Context {
        &self.context
    }
}

/// The service under all layers: further middleware, and the handler. Always ready.
#[derive(Clone, Copy, Debug)]
pub struct InnerService(pub(crate) ());

impl Service<Attempt> for InnerService {
    type Response = Outcome;
    type Error = AttemptError;
    type Future = Pin<Box<dyn Future<Output = Result<Outcome, AttemptError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Task<'_>) -> Poll<Result<(), AttemptError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, attempt: Attempt) -> Self::Future {
        let Attempt { context, started, result } = attempt;
        Box::pin(async move {
            // A channel closes only when the attempt itself was dropped; then this error is not read.
            let ended = || AttemptError(HandlerError::new("the attempt has ended"));
            started.send(context).map_err(|_| ended())?;
            result.await.map_err(|_| ended())?.map_err(AttemptError)
        })
    }
}

/// A failed attempt as an error that layers can pass on. It leaves them unchanged, with its own retry
/// decision.
pub struct AttemptError(pub(crate) HandlerError);

impl AttemptError {
    /// Returns the error of the handler, or of a middleware under the layers.
    pub fn handler_error(&self) -> &HandlerError {
        &self.0
    }
}

impl From<HandlerError> for AttemptError {
    fn from(error: HandlerError) -> Self {
        Self(error)
    }
}

impl fmt::Debug for AttemptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for AttemptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl StdError for AttemptError {}
