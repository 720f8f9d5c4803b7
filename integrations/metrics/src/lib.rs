//! Punctual's meters through the facade of the crate [metrics](https://docs.rs/metrics), for any
//! recorder that the application installs: Prometheus, `StatsD`, or one of its own.
//!
//! ```
//! use punctual::Punctual;
//!
//! let punctual = Punctual::builder()
//!     .on_event(punctual_metrics::exporter())
//!     .handler("mail", async |to: String| println!("to {to}"))
//!     .build();
//! assert!(punctual.is_ok());
//! ```
//!
//! | name | labels | meaning |
//! |---|---|---|
//! | `punctual_events_total` | `event` | number of events |
//! | `punctual_attempts_total` | `topic`, `ending` | attempts by their ending |
//! | `punctual_attempt_duration_seconds` | `topic`, `ending` | duration of attempts |
//! | `punctual_attempt_lateness_seconds` | `topic` | delay between due time and start of an attempt |
//! | `punctual_messages_dead_total` | `topic`, `reason` | messages that became dead letters |
//! | `punctual_leases_rescued_total` | | messages of lost processes that were rescued |
//! | `punctual_occurrences_missed_total` | | missed occurrences of jobs |
//! | `punctual_occurrences_skipped_total` | `reason` | skipped occurrences of jobs |
//! | `punctual_job_runs_total` | `job_name`, `result` | runs of jobs by their result |
//!
//! The list is [`METERS`] of the library. Only the first 200 topics have their own labels; the rest are
//! `~other`, so that the memory of a recorder is bounded.

use metrics::{Label, Unit, counter, describe_counter, describe_histogram, histogram};
use punctual::Event;
use punctual::measure::{LabelNames, METERS, MeterAmount, MeterKind, MeterReading, readings};

/// Returns a hook for [`Builder::on_event`](punctual::Builder::on_event) that exports every meter.
///
/// The recorder is looked up for each reading, so it may be installed later; earlier events are then not
/// counted. The meters are described to the current recorder.
pub fn exporter() -> impl Fn(&Event) + Send + Sync + 'static {
    describe();
    let names = LabelNames::default();
    move |event| readings(event, &names, &mut export)
}

/// Describes each meter to the recorder. Only needed for a recorder that was installed after [`exporter`].
pub fn describe() {
    for meter in METERS {
        match meter.kind {
            MeterKind::Counter => {
                describe_counter!(meter.flat_name, Unit::Count, meter.meaning.trim());
            }
            MeterKind::Histogram => {
                describe_histogram!(meter.flat_name, Unit::Seconds, meter.meaning.trim());
            }
        }
    }
}

fn export(reading: MeterReading<'_>) {
    let label = |(name, value): &(&'static str, &str)| Label::new(*name, (*value).to_owned());
    let labels: Vec<Label> = reading.labels.iter().map(label).collect();
    match reading.amount {
        MeterAmount::Count(count) => counter!(reading.meter.flat_name, labels).increment(count),
        MeterAmount::Seconds(seconds) => {
            histogram!(reading.meter.flat_name, labels).record(seconds);
        }
    }
}
