//! Trace propagation: from the publisher to the handler and to what the handler publishes.

use std::time::Duration;

use opentelemetry::trace::{FutureExt, SpanKind, Status, TraceContextExt, Tracer};
use opentelemetry::{Context as Trace, SpanId};
use punctual::model::HandlerOptions;
use punctual::testing::TestHarness;
use punctual::{Builder, Context, HandlerError, Job, Occurrence, Outcome, Publisher, Retry};
use punctual_opentelemetry::Traces;

use crate::exported_spans::{ExportedSpans, attribute};

const MINUTE: Duration = Duration::from_secs(60);

async fn harness(spans: &ExportedSpans, build: impl FnOnce(Builder) -> Builder) -> TestHarness {
    let traces = Traces::new(spans.tracer());
    TestHarness::start(|builder| build(builder.middleware(traces))).await.unwrap()
}

fn retrying(intervals: impl IntoIterator<Item = Duration>) -> HandlerOptions {
    HandlerOptions::new().retry(Retry::intervals(intervals))
}

// spec: C-5
#[tokio::test]
async fn a_retry_a_day_later_is_still_in_the_trace_of_the_request() {
    let spans = ExportedSpans::new();
    let harness = harness(&spans, |builder| {
        builder
            .handler_with("order", retrying([MINUTE]), {
                async |_: u32, context: Context, publisher: Publisher| {
                    if context.attempt() == 1 {
                        return Err(HandlerError::new("no stock"));
                    }
                    publisher.publish("mail", &1).await?;
                    Ok(())
                }
            })
            .handler("mail", async |_: u32| {})
    })
    .await;
    let request = Trace::new().with_span(spans.tracer().start("request"));
    let order = harness.publisher().publish("order", &1).after(24 * 60 * MINUTE);
    async { order.await.unwrap() }.with_context(request.clone()).await;
    request.span().end();
    harness.advance(25 * 60 * MINUTE).await;

    let request = spans.one("request").span_context;
    let sent = spans.one("send order");
    assert_eq!(sent.parent_span_id, request.span_id());
    assert_eq!(sent.span_kind, SpanKind::Producer);
    let attempts = spans.all("process order");
    assert_eq!(attempts.len(), 2);
    for attempt in &attempts {
        assert_eq!(attempt.parent_span_id, sent.span_context.span_id());
        assert!(attempt.parent_span_is_remote);
        assert_eq!(attempt.span_kind, SpanKind::Consumer);
    }
    let mail = spans.one("send mail");
    assert_eq!(mail.parent_span_id, attempts[1].span_context.span_id());
    assert_eq!(spans.one("process mail").parent_span_id, mail.span_context.span_id());
    for name in ["send order", "process order", "send mail", "process mail"] {
        for span in spans.all(name) {
            assert_eq!(span.span_context.trace_id(), request.trace_id(), "{name}");
        }
    }
}

// spec: C-5
#[tokio::test]
async fn spans_have_semantic_names_and_the_outcome() {
    let spans = ExportedSpans::new();
    let harness = harness(&spans, |builder| {
        builder
            .handler_with("bad", retrying([]), async |_: u32| Err::<(), _>("no stock"))
            .handler_with("reported", retrying([]), async |_: u32, context: Context| {
                context.report_failure("half of it");
            })
            .handler_with("panics", retrying([]), async |_: u32| -> () { panic!("oh") })
            .handler("later", async |_: u32| Outcome::Discard("old".to_owned()))
            .handler("good", async |_: u32| {})
    })
    .await;
    for topic in ["bad", "reported", "panics", "later", "good"] {
        let message = harness.publisher().publish(topic, &1).correlation("correlation 7");
        message.await.unwrap();
    }
    harness.run_due().await;
    let ended = |topic: &str| {
        let span = spans.one(&format!("process {topic}"));
        let outcome = attribute(&span, "punctual.outcome");
        (outcome, attribute(&span, "punctual.success"), span.status)
    };
    let expected = |outcome: &str, success: &str, status: Status| {
        (outcome.to_owned(), success.to_owned(), status)
    };
    assert_eq!(ended("good"), expected("done", "true", Status::Unset));
    assert_eq!(ended("later"), expected("discard", "false", Status::Unset));
    assert_eq!(ended("bad"), expected("failed", "false", Status::error("no stock")));
    assert_eq!(ended("reported"), expected("failed", "false", Status::error("half of it")));
    let no_result = Status::error("the attempt ended without a result");
    assert_eq!(ended("panics"), expected("dropped", "false", no_result));
    let good = spans.one("process good");
    let message = harness.messages("good")[0].message.id.to_string();
    for (name, value) in [
        ("messaging.system", "punctual"),
        ("messaging.operation.name", "process"),
        ("messaging.operation.type", "process"),
        ("messaging.destination.name", "good"),
        ("messaging.message.id", &message),
        ("messaging.message.conversation_id", "correlation 7"),
        ("punctual.attempt", "1"),
    ] {
        assert_eq!(attribute(&good, name), value, "{name}");
    }
}

#[tokio::test]
async fn runs_of_a_job_begin_a_trace() {
    let spans = ExportedSpans::new();
    let harness = harness(&spans, |builder| {
        builder.job(Job::cron("hourly", "0 * * * *"), async |_: Occurrence| {})
    })
    .await;
    harness.advance(60 * MINUTE).await;
    let run = spans.one("process hourly");
    assert_eq!(run.parent_span_id, SpanId::INVALID);
    assert_eq!(attribute(&run, "punctual.job.name"), "hourly");
    assert_eq!(attribute(&run, "punctual.job.nominal"), "2026-03-02T08:00:00Z");
}

#[tokio::test]
async fn a_linked_attempt_begins_a_trace_and_links_the_other() {
    let spans = ExportedSpans::new();
    let traces = Traces::new(spans.tracer()).linked();
    let harness =
        TestHarness::start(|builder| builder.middleware(traces).handler("mail", async |_: u32| {}));
    let harness = harness.await.unwrap();
    harness.publisher().publish("mail", &1).await.unwrap();
    harness.run_due().await;
    let (sent, processed) = (spans.one("send mail"), spans.one("process mail"));
    assert_ne!(processed.span_context.trace_id(), sent.span_context.trace_id());
    let links: Vec<_> = processed.links.iter().map(|link| link.span_context.span_id()).collect();
    assert_eq!(links, [sent.span_context.span_id()]);
}

#[tokio::test]
async fn a_trace_in_the_headers_continues() {
    let spans = ExportedSpans::new();
    let harness = harness(&spans, |builder| builder.handler("mail", async |_: u32| {})).await;
    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let mail = harness.publisher().publish("mail", &1).header("traceparent", traceparent);
    mail.header("tracestate", "shop=7").await.unwrap();
    harness.run_due().await;
    let processed = spans.one("process mail");
    let trace = processed.span_context.trace_id().to_string();
    assert_eq!(trace, "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(processed.span_context.trace_state().get("shop"), Some("7"));
    assert_eq!(spans.one("send mail").parent_span_id.to_string(), "b7ad6b7169203331");
}

#[tokio::test]
async fn a_message_full_of_headers_is_sent_without_a_trace() {
    let spans = ExportedSpans::new();
    let harness = harness(&spans, |builder| builder.handler("mail", async |_: u32| {})).await;
    let full = (0..64).fold(harness.publisher().publish("mail", &1), |publish, number| {
        publish.header(format!("h{number}"), "x")
    });
    full.await.unwrap();
    harness.run_due().await;
    harness.assert_executed("mail", 1);
    assert_eq!(spans.one("process mail").parent_span_id, SpanId::INVALID);
}
