//! Punctual and [OpenTelemetry](https://docs.rs/opentelemetry): a trace continues from the publisher to the
//! handler, through every storage and transport, also after a long delay; and every event is counted.
//!
//! ```
//! use punctual::Punctual;
//!
//! let builder = Punctual::builder().handler("mail", async |to: String| println!("to {to}"));
//! // With the tracer and the meter of the global providers.
//! let punctual = punctual_opentelemetry::instrument(builder).build();
//! assert!(punctual.is_ok());
//! ```
//!
//! - [`Traces`] is a middleware. A publish is a span `send {topic}` of kind *producer*; its identity
//!   travels with the message in the headers `traceparent` and `tracestate` of the W3C. An attempt is a
//!   span `process {topic}` of kind *consumer*, a child of it. Runs of jobs have no publisher and begin a
//!   trace of their own.
//! - [`meters`] is a hook that counts and measures under the names of
//!   [`METERS`](punctual::measure::METERS).
//!
//! Attributes have the names of the semantic conventions for messaging: `messaging.system`,
//! `messaging.operation.name`, `messaging.operation.type`, `messaging.destination.name`,
//! `messaging.message.id`, `messaging.message.conversation_id` (the correlation) and `error.type`; beside
//! them are `punctual.attempt`, `punctual.execution.id`, `punctual.job.name`, `punctual.job.nominal`,
//! `punctual.outcome` and `punctual.success`.
//!
//! # Beside `tracing-opentelemetry`
//!
//! Its spans and ours are in one tree, because both use the current context: a publish inside one of
//! its spans continues its trace, and its spans inside a handler are children of `process {topic}`.
//! The library's own span `attempt`, exported by it, is around all of that and starts before the
//! headers are read; the two are linked.

mod carrier;
mod meters;
mod names;
mod traces;

pub use meters::meters;
pub use traces::Traces;

use opentelemetry::global;
use punctual::Builder;

/// The name of this instrumentation.
pub const SCOPE: &str = "punctual";

/// Adds traces and meters with the global providers to a builder.
///
/// Set the providers before: tracer and meter are taken from them in this call. Middleware that is added to
/// the builder later runs inside the spans.
pub fn instrument(builder: Builder) -> Builder {
    let builder = builder.middleware(Traces::new(global::tracer(SCOPE)));
    builder.on_event(meters(&global::meter(SCOPE)))
}
