//! Spans of `tracing`, exported by `tracing-opentelemetry`, and ours are one tree.

use punctual::testing::TestHarness;
use punctual_opentelemetry::Traces;
use tracing::Instrument;
use tracing_subscriber::layer::SubscriberExt;

use crate::seen::Seen;

#[tokio::test]
async fn its_spans_are_around_the_publish_and_inside_the_handler() {
    let seen = Seen::new();
    // With a single subscriber, tests beside this one would decide for it which spans nobody wants.
    let _second = tracing::Dispatch::new(tracing_subscriber::registry());
    let layer = tracing_opentelemetry::layer().with_tracer(seen.tracer());
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    let traces = Traces::new(seen.tracer());
    let rehearsal = TestHarness::start(|builder| {
        builder.middleware(traces).handler("mail", async |_: u32| {
            async {}.instrument(tracing::info_span!("packing")).await;
        })
    });
    let rehearsal = rehearsal.await.unwrap();
    let publisher = rehearsal.publisher();
    let request = tracing::info_span!("request");
    async { publisher.publish("mail", &1).await.unwrap() }.instrument(request).await;
    rehearsal.run_due().await;
    let (request, sent) = (seen.one("request"), seen.one("send mail"));
    let (processed, packing) = (seen.one("process mail"), seen.one("packing"));
    assert_eq!(sent.parent_span_id, request.span_context.span_id());
    assert_eq!(processed.parent_span_id, sent.span_context.span_id());
    assert_eq!(packing.parent_span_id, processed.span_context.span_id());
    assert_eq!(packing.span_context.trace_id(), request.span_context.trace_id());
    let attempt = seen.one("attempt").span_context.span_id();
    let links: Vec<_> = processed.links.iter().map(|link| link.span_context.span_id()).collect();
    assert_eq!(links, [attempt], "and it knows the library's own span around it");
}
