//! Export: the metrics that a recorder gets from a process.
#![allow(clippy::unwrap_used)] // tests, whose helpers clippy does not know as such

use std::collections::BTreeMap;
use std::time::Duration;

use metrics_util::MetricKind;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use punctual::measure::METERS;
use punctual::model::HandlerOptions;
use punctual::testing::TestHarness;
use punctual::{Job, Misfire, Occurrence, Retry};

/// Returns every metric as `name{label=value}`, and its value.
fn exported_metrics(snapshotter: &Snapshotter) -> BTreeMap<String, String> {
    let one = |(key, _, _, value): (metrics_util::CompositeKey, _, _, DebugValue)| {
        let labels: Vec<String> =
            key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let value = match value {
            DebugValue::Counter(count) => count.to_string(),
            DebugValue::Gauge(level) => level.to_string(),
            DebugValue::Histogram(values) => {
                let values: Vec<f64> = values.iter().map(|value| value.into_inner()).collect();
                format!("{values:?}")
            }
        };
        (format!("{}{{{}}}", key.key().name(), labels.join(",")), value)
    };
    snapshotter.snapshot().into_vec().into_iter().map(one).collect()
}

// spec: C-4, C-5
#[tokio::test]
async fn attempts_are_counted_and_measured_by_topic_and_ending() {
    let recorder = DebuggingRecorder::new();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let handler_options = HandlerOptions::new().retry(Retry::intervals([Duration::from_secs(60)]));
    let harness = TestHarness::start(|builder| {
        builder
            .on_event(punctual_metrics::exporter())
            .handler("mail", async |_: u32| {})
            .handler_with("post", handler_options, async |_: u32| Err::<(), _>("no stamps"))
    });
    let harness = harness.await.unwrap();
    let publisher = harness.publisher();
    for number in 0..3 {
        publisher.publish("mail", &number).await.unwrap();
    }
    publisher.publish("post", &1).await.unwrap();
    harness.advance(Duration::from_secs(60)).await;
    let exported_metrics = exported_metrics(&recorder.snapshotter());
    let value_of = |name: &str| exported_metrics.get(name).map_or("-", String::as_str);
    assert_eq!(value_of("punctual_attempts_total{topic=mail,ending=succeeded}"), "3");
    assert_eq!(value_of("punctual_attempts_total{topic=post,ending=failed}"), "2");
    let took = value_of("punctual_attempt_duration_seconds{topic=mail,ending=succeeded}");
    assert_eq!(took, "[0.0, 0.0, 0.0]");
    assert_eq!(value_of("punctual_attempt_lateness_seconds{topic=post}"), "[0.0, 0.0]");
    assert_eq!(value_of("punctual_messages_dead_total{topic=post,reason=attempts spent}"), "1");
    assert_eq!(value_of("punctual_events_total{event=message.enqueued}"), "4");
    let events = harness.events();
    for (name, count) in events.counts().filter(|(_, count)| *count > 0) {
        let exported = value_of(&format!("punctual_events_total{{event={name}}}")).to_owned();
        assert_eq!(exported, count.to_string(), "{name}");
    }
}

#[tokio::test]
async fn missed_occurrences_are_counted_one_by_one() {
    let recorder = DebuggingRecorder::new();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let harness = TestHarness::start(|builder| {
        let job = Job::cron("hourly", "0 * * * *").misfire(Misfire::skip_to_next());
        builder.on_event(punctual_metrics::exporter()).job(job, async |_: Occurrence| {})
    });
    let harness = harness.await.unwrap();
    // Three occurrences pass while no process runs.
    let now = harness.clock();
    now.advance(Duration::from_secs(3 * 3_600 + 1_800));
    harness.run_due().await;
    let exported_metrics = exported_metrics(&recorder.snapshotter());
    assert_eq!(exported_metrics["punctual_occurrences_missed_total{}"], "3");
    assert_eq!(exported_metrics["punctual_occurrences_skipped_total{reason=misfire}"], "3");
}

#[test]
fn every_meter_is_described() {
    let recorder = DebuggingRecorder::new();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let export = punctual_metrics::exporter();
    export(&punctual::Event::LeasesRescued { count: 7 });
    let snapshot = recorder.snapshotter().snapshot().into_vec();
    let (_, unit, about, _) = snapshot
        .iter()
        .find(|(key, ..)| key.key().name() == "punctual_leases_rescued_total")
        .unwrap();
    assert_eq!(unit.unwrap().as_canonical_label(), "");
    assert_eq!(&**about.as_ref().unwrap(), "Messages of lost processes that were rescued.");
    assert!(snapshot.iter().all(|(key, ..)| key.kind() == MetricKind::Counter));
}

#[test]
fn the_page_of_the_crate_lists_every_meter() {
    let page = include_str!("../src/lib.rs");
    for meter in METERS {
        assert!(page.contains(&format!("//! | `{}` |", meter.flat_name)), "{}", meter.flat_name);
    }
}
