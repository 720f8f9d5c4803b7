//! What layers see: an attempt on its way in, and the service at the bottom, which lets the rest of the
//! chain run. The rest borrows from the process, and requests of tower own what they have; so an attempt
//! carries one end of two channels, and the middleware, which has the rest, holds the other.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context as Task, Poll};

use punctual::{Context, HandlerError, HandlerResult, Outcome};
use tokio::sync::oneshot;
use tower_service::Service;

/// Any error, as layers of tower give it.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// One attempt on its way through the layers. It cannot be cloned, because it is made once:
///
/// ```compile_fail
/// fn twice(attempt: &punctual_tower::Attempt) -> punctual_tower::Attempt {
///     attempt.clone()
/// }
/// ```
#[derive(Debug)]
pub struct Attempt {
    context: Context,
    go: oneshot::Sender<Context>,
    answer: oneshot::Receiver<HandlerResult>,
}

/// The middleware's side of an attempt.
pub(crate) struct Waiting {
    /// Tells that the layers let the attempt through.
    pub(crate) go: oneshot::Receiver<Context>,
    /// Where what came of it goes. Closed when the layers no longer want to know.
    pub(crate) answer: oneshot::Sender<HandlerResult>,
}

impl Attempt {
    pub(crate) fn new(context: Context) -> (Self, Waiting) {
        let (go, gone) = oneshot::channel();
        let (answer, answered) = oneshot::channel();
        (Self { context, go, answer: answered }, Waiting { go: gone, answer })
    }

    /// What the handler may know: topic, job, attempt, headers.
    pub fn context(&self) -> &Context {
        &self.context
    }
}

/// The service under all layers: further middleware, and the handler. Always ready.
#[derive(Clone, Copy, Debug)]
pub struct Rest(pub(crate) ());

impl Service<Attempt> for Rest {
    type Response = Outcome;
    type Error = AttemptError;
    type Future = Pin<Box<dyn Future<Output = Result<Outcome, AttemptError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Task<'_>) -> Poll<Result<(), AttemptError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, attempt: Attempt) -> Self::Future {
        let Attempt { context, go, answer } = attempt;
        Box::pin(async move {
            // Either end is gone only when the attempt itself was dropped; then nobody reads this.
            let ended = || AttemptError(HandlerError::new("the attempt has ended"));
            go.send(context).map_err(|_| ended())?;
            answer.await.map_err(|_| ended())?.map_err(AttemptError)
        })
    }
}

/// A failed attempt as an error that layers can carry. It comes out of them as it went in, with what it
/// says itself should happen.
pub struct AttemptError(pub(crate) HandlerError);

impl AttemptError {
    /// What the handler, or a middleware under the layers, returned.
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
