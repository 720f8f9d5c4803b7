//! Meters: every event is counted and every attempt measured.

use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::MeterProvider;
use opentelemetry_sdk::metrics::data::{
    AggregatedMetrics, MetricData, ResourceMetrics, ScopeMetrics,
};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};
use punctual::model::HandlerOptions;
use punctual::testing::TestHarness;
use punctual::{Punctual, Retry};
use punctual_opentelemetry::{instrument, meters};

/// Returns every point as `name{label=value}: value`, with its labels sorted by name.
fn points(exporter: &InMemoryMetricExporter) -> Vec<String> {
    let mut lines = Vec::new();
    let finished = exporter.get_finished_metrics().unwrap();
    let metrics = finished.iter().flat_map(ResourceMetrics::scope_metrics);
    for metric in metrics.flat_map(ScopeMetrics::metrics) {
        let name = metric.name();
        match metric.data() {
            AggregatedMetrics::U64(MetricData::Sum(sum)) => {
                for point in sum.data_points() {
                    let labels = labels(point.attributes());
                    lines.push(format!("{name}{{{labels}}}: {}", point.value()));
                }
            }
            AggregatedMetrics::F64(MetricData::Histogram(histogram)) => {
                for point in histogram.data_points() {
                    let (labels, count) = (labels(point.attributes()), point.count());
                    lines.push(format!("{name}{{{labels}}}: {count} in {} s", point.sum()));
                }
            }
            other => panic!("{name} is {other:?}"),
        }
    }
    lines
}

fn labels<'p>(attributes: impl Iterator<Item = &'p KeyValue>) -> String {
    let mut labels: Vec<String> =
        attributes.map(|label| format!("{}={}", label.key, label.value)).collect();
    labels.sort();
    labels.join(",")
}

// spec: C-4, C-5
#[tokio::test]
async fn events_and_attempts_reach_the_exporter() {
    let exporter = InMemoryMetricExporter::default();
    let reader = PeriodicReader::builder(exporter.clone()).build();
    let provider = SdkMeterProvider::builder().with_reader(reader).build();
    let hook = meters(&provider.meter("test"));
    let handler_options = HandlerOptions::new().retry(Retry::none());
    let harness = TestHarness::start(|builder| {
        builder.on_event(hook).handler("mail", async |_: u32| {}).handler_with(
            "post",
            handler_options,
            async |_: u32| Err::<(), _>("no stamps"),
        )
    });
    let harness = harness.await.unwrap();
    for topic in ["mail", "mail", "post"] {
        let late = harness.publisher().publish(topic, &1).after(Duration::from_secs(1));
        late.await.unwrap();
    }
    // Two seconds late, because no process ran at the due time.
    harness.clock().advance(Duration::from_secs(3));
    harness.run_due().await;
    provider.force_flush().unwrap();
    let points = points(&exporter);
    for expected in [
        "punctual.attempt.duration{ending=succeeded,topic=mail}: 2 in 0 s",
        "punctual.attempt.lateness{topic=mail}: 2 in 4 s",
        "punctual.attempts{ending=succeeded,topic=mail}: 2",
        "punctual.attempts{ending=failed,topic=post}: 1",
        "punctual.events{event=attempt.started}: 3",
        "punctual.events{event=message.enqueued}: 3",
        "punctual.messages.dead{reason=attempts spent,topic=post}: 1",
    ] {
        assert!(points.iter().any(|point| point == expected), "{expected} not in {points:#?}");
    }
}

#[tokio::test]
async fn one_call_instruments_a_builder() {
    let punctual = instrument(Punctual::builder()).build().unwrap();
    punctual.publisher().publish("mail", &1).await.unwrap();
    assert_eq!(punctual.events().count("message.enqueued"), 1, "also where no provider is set");
}
