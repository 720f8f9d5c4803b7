//! Handler contract: takes one message and returns an outcome. Outcomes are values that decide what happens to
//! the message; after any error the retry policy decides.
//!
//! A handler is an `async fn`. Its first argument is the payload, deserialized from the body. It is followed by
//! up to eight extractors, each identified by its type: [`Context`], [`State`], [`Publisher`](crate::Publisher),
//! [`MessageId`](crate::model::MessageId), [`ExecutionId`](crate::model::ExecutionId),
//! [`Topic`](crate::model::Topic), [`Source`](crate::model::Source),
//! [`Headers`](crate::model::Headers), [`Key`](crate::model::Key),
//! [`JobName`](crate::model::JobName), [`Occurrence`](crate::model::Occurrence), the last three also
//! as an `Option`, [`Cancellation`], and any type that implements [`FromContext`]. A handler may have no payload,
//! or no arguments at all.

mod arguments;
mod blocking;
mod cancellation;
mod context;
mod error_rules;
mod extract;
mod function;
mod must_report;
mod outcome;
mod payload;
mod relations;
mod reply;
mod reports;
mod slots;
mod state;

use std::future::Future;

use futures_util::future::BoxFuture;

pub use blocking::{Blocking, blocking};
pub(crate) use cancellation::Signal;
pub use cancellation::{CancelCause, Cancellation};
pub use context::Context;
pub(crate) use context::ContextParts;
pub(crate) use error_rules::ErrorRules;
pub use extract::FromContext;
pub use function::IntoHandler;
pub(crate) use function::UnboundHandler;
pub(crate) use must_report::conclude;
pub use must_report::{MustReport, must_report};
pub use outcome::{HandlerError, HandlerResult, IntoOutcome, Outcome};
pub(crate) use reports::AttemptReports;
pub use reports::{ProgressReport, SelfReport};
pub(crate) use slots::{Slot, Slots};
pub(crate) use state::States;
pub use state::{RequiredStates, State};

use crate::error::Result;
use crate::model::Message;

/// Types by which the compiler infers the arguments of a handler; applications need none of them. They are visible because
/// the compiler shortens the names of visible types only, and its messages about a wrong handler name them.
pub mod inference {
    pub use super::arguments::{Arguments, WholeContext, WrappedArguments};
    pub use super::blocking::{Call, PlainFunction};
    pub use super::extract::{Argument, FirstArgument, ViaContext, ViaFact, ViaPayload, ViaState};
    pub use super::function::{Function, UnboundHandler};
    pub use super::state::States;
}

/// Handles messages whose body deserializes as `M`. For types with fields that the handler needs.
///
/// Most handlers are an `async fn` or a closure instead, which may take more arguments than a context and
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
    /// Handles one message. Called for every attempt; must be safe to run twice, because delivery is at least
    /// once.
    fn handle(&self, message: M, context: Context) -> impl Future<Output = HandlerResult> + Send;
}

/// A handler without its payload type, as the registry stores it.
pub(crate) trait AnyHandler: Send + Sync + 'static {
    /// Deserializes the payload; fails before the handler runs when it does not match.
    fn prepare(&self, message: &Message) -> Result<Prepared<'_>>;
}

/// A call of a handler with its payload, which needs only its context.
pub(crate) type Prepared<'a> = Box<dyn FnOnce(Context) -> BoxFuture<'a, HandlerResult> + Send + 'a>;
