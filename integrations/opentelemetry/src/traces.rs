//! Spans around publishing and around attempts, and the trace that goes from one to the other.

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

/// Carries traces from publishers to handlers. Give it to
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
    /// Spans by a tracer.
    pub fn new(tracer: T) -> Self {
        Self { tracer, linked: false }
    }

    /// Attempts begin traces of their own and only link to the publisher's: for work that is due days
    /// later, whose trace nobody would keep open.
    #[must_use]
    pub fn linked(mut self) -> Self {
        self.linked = true;
        self
    }

    /// The span of an attempt as the current one: below its publisher, or below what is around it here;
    /// and linked to the other one.
    fn begin(&self, context: &Context) -> Trace {
        let (here, sent) = (Trace::current(), extract(context.headers()));
        let follows = sent.span().span_context().is_valid() && !self.linked;
        let (parent, other) = if follows { (&sent, &here) } else { (&here, &sent) };
        let span = self
            .tracer
            .span_builder(format!("process {}", context.topic()))
            .with_kind(SpanKind::Consumer)
            .with_attributes(facts(context));
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
        // A message that somebody else's trace was given to goes on with that one.
        let given = extract(&message.headers);
        let parent = if given.span().span_context().is_valid() { given } else { Trace::current() };
        let mut attributes = operation("send", message.topic.as_str());
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
        let open = Open { trace: self.begin(&context), is_answered: false };
        let trace = open.trace.clone();
        let result = next.run(context.clone()).with_context(trace).await;
        open.close(&result, context.reported());
        result
    }
}

/// The span of an attempt until it has an answer. One that is dropped before, by a panic, a timeout or a
/// shutdown, is a failure.
struct Open {
    trace: Trace,
    is_answered: bool,
}

impl Open {
    fn close(mut self, result: &HandlerResult, reported: Option<SelfReport>) {
        self.is_answered = true;
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

impl Drop for Open {
    fn drop(&mut self) {
        let span = self.trace.span();
        if !self.is_answered {
            span.set_attribute(KeyValue::new(OUTCOME, "dropped"));
            span.set_attribute(KeyValue::new(SUCCESS, false));
            span.set_attribute(KeyValue::new(ERROR_TYPE, "dropped"));
            span.set_status(Status::error("the attempt ended without an answer"));
        }
        span.end();
    }
}

fn operation(name: &'static str, topic: &str) -> Vec<KeyValue> {
    vec![
        KeyValue::new(SYSTEM, "punctual"),
        KeyValue::new(OPERATION_NAME, name),
        KeyValue::new(OPERATION_TYPE, name),
        KeyValue::new(DESTINATION, topic.to_owned()),
    ]
}

fn facts(context: &Context) -> Vec<KeyValue> {
    let mut facts = operation("process", context.topic().as_str());
    facts.extend([
        KeyValue::new(MESSAGE_ID, context.message_id().to_string()),
        KeyValue::new(CONVERSATION_ID, context.correlation().to_string()),
        KeyValue::new(EXECUTION_ID, context.execution_id().to_string()),
        KeyValue::new(ATTEMPT, i64::from(context.attempt())),
    ]);
    facts.extend(context.job().map(|job| KeyValue::new(JOB_NAME, job.to_string())));
    facts.extend(context.nominal().map(|nominal| KeyValue::new(JOB_NOMINAL, nominal.to_string())));
    facts
}

impl<T> fmt::Debug for Traces<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traces").field("linked", &self.linked).finish_non_exhaustive()
    }
}
