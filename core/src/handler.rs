//! The contract of a handler: one message and what it asks for in, an outcome out. Outcomes are
//! values, the only ways to steer; any error means "failed, ask the retry policy".
//!
//! A handler is an `async fn`. Its first argument is the payload, read from the body; behind it stand
//! up to eight extractors, each by its type: [`Context`], [`State`], [`Publisher`](crate::Publisher),
//! [`MessageId`](crate::model::MessageId), [`ExecutionId`](crate::model::ExecutionId),
//! [`Topic`](crate::model::Topic), [`Source`](crate::model::Source),
//! [`Headers`](crate::model::Headers), [`Key`](crate::model::Key),
//! [`JobName`](crate::model::JobName), [`Occurrence`](crate::model::Occurrence), the last three also
//! as an `Option`, [`Cancellation`], and whatever implements [`FromContext`]. Without a payload the
//! extractors begin at once, and `async fn()` is a handler too.

mod arguments;
mod blocking;
mod cancellation;
mod context;
mod contract;
mod extract;
mod function;
mod handler_test;
mod others;
mod outcome;
mod payload;
mod replying;
mod reporting;
mod rules;
mod state;

use std::future::Future;

use futures_util::future::BoxFuture;

pub use arguments::{Arguments, WholeContext, WrappedArguments};
pub use blocking::{Blocking, Call, PlainFunction, blocking};
pub(crate) use cancellation::Signal;
pub use cancellation::{Cancellation, Cause};
pub use context::Context;
pub(crate) use context::ContextParts;
pub(crate) use contract::conclude;
pub use contract::{MustReport, must_report};
pub use extract::{
    Argument, FirstArgument, FromContext, ViaContext, ViaFact, ViaPayload, ViaState,
};
pub use function::{Function, IntoHandler, UnboundHandler};
pub use handler_test::{HandlerTest, HandlerTestResult};
pub use outcome::{HandlerError, HandlerResult, IntoOutcome, Outcome};
pub(crate) use reporting::Said;
pub use reporting::{ProgressReport, SelfReport};
pub(crate) use rules::Rules;
pub use state::{RequiredStates, State, States};

use crate::error::Result;
use crate::model::Message;

/// Deals with messages whose body reads as `M`: for types that carry what they need.
///
/// Most handlers are an `async fn` or a closure instead, which may take more than a context and
/// returns `()`, an [`Outcome`], or a `Result` of either.
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
    note = "implement `punctual::Handler<{M}>` for it, or write an `async fn({M}, Context)`"
)]
pub trait Handler<M>: Send + Sync + 'static {
    /// Deals with one message. Called again for every attempt; must be safe to run twice, because
    /// delivery is at least once.
    fn handle(&self, message: M, context: Context) -> impl Future<Output = HandlerResult> + Send;
}

/// A handler whose payload type is forgotten: what the registry keeps.
pub(crate) trait AnyHandler: Send + Sync + 'static {
    /// Reads the payload; fails when it does not fit, before anything has run.
    fn prepare(&self, message: &Message) -> Result<Prepared<'_>>;
}

/// A call that only needs its context.
pub(crate) type Prepared<'a> = Box<dyn FnOnce(Context) -> BoxFuture<'a, HandlerResult> + Send + 'a>;
