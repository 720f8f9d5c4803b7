//! Traces: spans around publishing and around attempts, in one trace.

use std::fmt;

use async_trait::async_trait;
use opentelemetry::context::FutureExt;
use opentelemetry::global::BoxedTracer;
use opentelemetry::trace::{SpanContext, SpanKind, Status, TraceContextExt, Tracer};
use opentelemetry::{Context as Trace, KeyValue};
use punctual::handler::SelfReport;
use punctual::{
    Context, HandlerResult, Message, Middleware, NextHandle, NextPublish, Outcome, Result,
};

use crate::carrier::{extract, inject};
use crate::names::{
    ATTEMPT, CONVERSATION_ID, DESTINATION, ERROR_TYPE, EXECUTION_ID, JOB_NAME, JOB_NOMINAL,
    MESSAGE_ID, OPERATION_NAME, OPERATION_TYPE, OUTCOME, SUCCESS, SYSTEM,
};

/// Carries traces from publishers to handlers. Pass it to
/// [`Builder::middleware`](punctual::Builder::middleware) before other middleware that should be inside.
pub struct Traces<T = BoxedTracer> {
    tracer: T,
    linked: bool,
}

impl<T> Traces<T>
where
    T: Tracer + Send + Sync + 'static,
    T::Span: Send + Sync + 'static,
{
    /// Creates the middleware with a tracer.
    pub fn new(tracer: T) -> Self {
        Self { tracer, linked: false }
    }

    /// Makes attempts begin traces of their own that only link to the publisher's: for work that is due
    /// days later, after the end of the publisher's trace.
    #[must_use]
    pub fn linked(mut self) -> Self {
        self.linked = true;
        self
    }

    /// Starts the span of an attempt, as a child of the publisher's span or of the current span, and linked
    /// to the other one.
    fn begin(&self, context: &Context) -> Trace {
        let (here, sent) = (Trace::current(), extract(context.headers()));
        let follows = sent.span().span_context().is_valid() && !self.linked;
        let (parent, other) = if follows { (&sent, &here) } else { (&here, &sent) };
        let span = self
            .tracer
            .span_builder(format!("process {}", context.topic()))
            .with_kind(SpanKind::Consumer)
            .with_attributes(attempt_attributes(context));
        let span = self.tracer.build_with_context(span, parent);
        let trace = here.with_span(span);
        let other: SpanContext = other.span().span_context().clone();
        if other.is_valid() {
            trace.span().add_link(other, Vec::new());
        }
        trace
    }
}

#[async_trait]
impl<T> Middleware for Traces<T>
where
    T: Tracer + Send + Sync + 'static,
    T::Span: Send + Sync + 'static,
{
    async fn around_publish(&self, mut message: Message, next: NextPublish<'_>) -> Result<()> {
        // A message with a foreign trace in its headers continues that one.
        let from_headers = extract(&message.headers);
        let is_foreign = from_headers.span().span_context().is_valid();
        let parent = if is_foreign { from_headers } else { Trace::current() };
        let mut attributes = operation_attributes("send", message.topic.as_str());
        attributes.push(KeyValue::new(MESSAGE_ID, message.id.to_string()));
        let span = self
            .tracer
            .span_builder(format!("send {}", message.topic))
            .with_kind(SpanKind::Producer)
            .with_attributes(attributes);
        let trace = Trace::current().with_span(self.tracer.build_with_context(span, &parent));
        inject(&trace, &mut message.headers);
        let result = next.run(message).with_context(trace.clone()).await;
        if let Err(error) = &result {
            let kind = error.kind().as_str();
            trace.span().set_attribute(KeyValue::new(ERROR_TYPE, kind));
            trace.span().set_status(Status::error(error.to_string()));
        }
        trace.span().end();
        result
    }

    async fn around_handle(&self, context: Context, next: NextHandle<'_>) -> HandlerResult {
        let span = AttemptSpan { trace: self.begin(&context), has_result: false };
        let trace = span.trace.clone();
        let result = next.run(context.clone()).with_context(trace).await;
        span.close(&result, context.reported());
        result
    }
}

/// The span of an attempt until it has a result. One that is dropped before, by a panic, a timeout or a
/// shutdown, is a failure.
struct AttemptSpan {
    trace: Trace,
    has_result: bool,
}

impl AttemptSpan {
    fn close(mut self, result: &HandlerResult, reported: Option<SelfReport>) {
        self.has_result = true;
        let failure = match (result, reported) {
            (Err(error), _) => Some(error.text().clone()),
            (Ok(Outcome::Done), Some(SelfReport::Failure(text))) => Some(text),
            _ => None,
        };
        let outcome = match result {
            _ if failure.is_some() => "failed",
            Ok(Outcome::Done) => "done",
            Ok(Outcome::RetryAfter(_)) => "retry_after",
            Ok(Outcome::Snooze(_)) => "snooze",
            Ok(Outcome::Discard(_)) => "discard",
            Ok(Outcome::Cancel) => "cancel",
            _ => "other",
        };
        let span = self.trace.span();
        span.set_attribute(KeyValue::new(OUTCOME, outcome));
        span.set_attribute(KeyValue::new(SUCCESS, outcome == "done"));
        if let Some(text) = failure {
            span.set_attribute(KeyValue::new(ERROR_TYPE, "failed"));
            span.set_status(Status::error(text.to_string()));
        }
    }
}

impl Drop for AttemptSpan {
    fn drop(&mut self) {
        let span = self.trace.span();
        if !self.has_result {
            span.set_attribute(KeyValue::new(OUTCOME, "dropped"));
            span.set_attribute(KeyValue::new(SUCCESS, false));
            span.set_attribute(KeyValue::new(ERROR_TYPE, "dropped"));
            span.set_status(Status::error("the attempt ended without a result"));
        }
        span.end();
    }
}

fn operation_attributes(name: &'static str, topic: &str) -> Vec<KeyValue> {
    vec![
        KeyValue::new(SYSTEM, "punctual"),
        KeyValue::new(OPERATION_NAME, name),
        KeyValue::new(OPERATION_TYPE, name),
        KeyValue::new(DESTINATION, topic.to_owned()),
    ]
}

fn attempt_attributes(context: &Context) -> Vec<KeyValue> {
    let mut attributes = operation_attributes("process", context.topic().as_str());
    attributes.extend([
        KeyValue::new(MESSAGE_ID, context.message_id().to_string()),
        KeyValue::new(CONVERSATION_ID, context.correlation().to_string()),
        KeyValue::new(EXECUTION_ID, context.execution_id().to_string()),
        KeyValue::new(ATTEMPT, i64::from(context.attempt())),
    ]);
    attributes.extend(context.job().map(|job| KeyValue::new(JOB_NAME, job.to_string())));
    attributes
        .extend(context.nominal().map(|nominal| KeyValue::new(JOB_NOMINAL, nominal.to_string())));
    attributes
}

impl<T> fmt::Debug for Traces<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traces").field("linked", &self.linked).finish_non_exhaustive()
    }
}
