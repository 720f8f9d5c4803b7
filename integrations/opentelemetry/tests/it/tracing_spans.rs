//! Spans of `tracing`, exported by `tracing-opentelemetry`, and ours are one tree.

use punctual::testing::TestHarness;
use punctual_opentelemetry::Traces;
use tracing::Instrument;
use tracing_subscriber::layer::SubscriberExt;

use crate::exported_spans::ExportedSpans;

#[tokio::test]
async fn spans_of_tracing_are_around_the_publish_and_inside_the_handler() {
    let spans = ExportedSpans::new();
    // With a single subscriber, tests in other threads would disable spans of this one.
    let _second = tracing::Dispatch::new(tracing_subscriber::registry());
    let layer = tracing_opentelemetry::layer().with_tracer(spans.tracer());
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    let traces = Traces::new(spans.tracer());
    let harness = TestHarness::start(|builder| {
        builder.middleware(traces).handler("mail", async |_: u32| {
            async {}.instrument(tracing::info_span!("packing")).await;
        })
    });
    let harness = harness.await.unwrap();
    let publisher = harness.publisher();
    let request = tracing::info_span!("request");
    async { publisher.publish("mail", &1).await.unwrap() }.instrument(request).await;
    harness.run_due().await;
    let (request, sent) = (spans.one("request"), spans.one("send mail"));
    let (processed, packing) = (spans.one("process mail"), spans.one("packing"));
    assert_eq!(sent.parent_span_id, request.span_context.span_id());
    assert_eq!(processed.parent_span_id, sent.span_context.span_id());
    assert_eq!(packing.parent_span_id, processed.span_context.span_id());
    assert_eq!(packing.span_context.trace_id(), request.span_context.trace_id());
    let attempt = spans.one("attempt").span_context.span_id();
    let links: Vec<_> = processed.links.iter().map(|link| link.span_context.span_id()).collect();
    assert_eq!(links, [attempt], "and it links the library's own span around it");
}
