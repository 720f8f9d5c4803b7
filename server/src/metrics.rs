//! Metrics in the Prometheus text format: meters of events in this process, and gauges of storage and process.

mod gauges;
mod text;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use punctual::Event;
use punctual::measure::{
    BOUNDS_MS, LabelNames, METERS, MeterAmount, MeterKind, MeterReading, readings,
};

use crate::app::App;
use crate::caller::{Caller, Role};
use crate::problem::ApiResult;
use text::Text;

/// Content type with the version of the format.
const FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns the metrics route.
pub(crate) fn routes() -> Router<App> {
    Router::new().route("/metrics", get(metrics))
}

/// Meters of the events of a process: pass [`Meters::hook`] to the builder and the meters to the application.
/// Cheap to clone; all clones share the counts.
#[derive(Clone, Default)]
pub struct Meters(Arc<MeterState>);

#[derive(Default)]
struct MeterState {
    names: LabelNames,
    series: Mutex<BTreeMap<(&'static str, String), Series>>,
}

/// One meter with one set of labels.
enum Series {
    Count(u64),
    Durations(DurationHistogram),
}

/// A histogram in seconds.
#[derive(Default)]
struct DurationHistogram {
    buckets: [u64; BOUNDS_MS.len()],
    count: u64,
    sum: f64,
}

impl Meters {
    /// Returns the hook for [`Builder::on_event`](punctual::Builder::on_event).
    pub fn hook(&self) -> impl Fn(&Event) + Send + Sync + 'static {
        let state = self.0.clone();
        move |event| readings(event, &state.names, &mut |reading| state.record(&reading))
    }

    fn write(&self, text: &mut Text) {
        let series = self.0.series.lock().unwrap_or_else(PoisonError::into_inner);
        for meter in METERS {
            let kind = match meter.kind {
                MeterKind::Counter => "counter",
                MeterKind::Histogram => "histogram",
            };
            text.begin(meter.flat_name, kind, meter.meaning.trim());
            let first = (meter.flat_name, String::new());
            let of_meter =
                series.range(first..).take_while(|((name, _), _)| *name == meter.flat_name);
            for ((name, labels), one) in of_meter {
                match one {
                    Series::Count(count) => text.line(name, labels, *count),
                    Series::Durations(durations) => durations.write(text, name, labels),
                }
            }
        }
    }
}

impl MeterState {
    fn record(&self, reading: &MeterReading<'_>) {
        let labels = text::labels(reading.labels);
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        let one = series.entry((reading.meter.flat_name, labels));
        match reading.amount {
            MeterAmount::Count(more) => {
                if let Series::Count(count) = one.or_insert(Series::Count(0)) {
                    *count += more;
                }
            }
            MeterAmount::Seconds(seconds) => {
                if let Series::Durations(durations) =
                    one.or_insert_with(|| Series::Durations(DurationHistogram::default()))
                {
                    durations.record(seconds);
                }
            }
        }
    }
}

/// Returns an upper bound in seconds.
fn bound(milliseconds: u64) -> f64 {
    std::time::Duration::from_millis(milliseconds).as_secs_f64()
}

impl DurationHistogram {
    fn record(&mut self, seconds: f64) {
        let place = BOUNDS_MS.iter().position(|milliseconds| seconds <= bound(*milliseconds));
        if let Some(bucket) = place.and_then(|place| self.buckets.get_mut(place)) {
            *bucket += 1;
        }
        self.count += 1;
        self.sum += seconds;
    }

    fn write(&self, text: &mut Text, name: &str, labels: &str) {
        let bucket = format!("{name}_bucket");
        let comma = if labels.is_empty() { "" } else { "," };
        let mut below = 0;
        for (milliseconds, count) in BOUNDS_MS.iter().zip(self.buckets) {
            below += count;
            text.line(&bucket, &format!("{labels}{comma}le=\"{}\"", bound(*milliseconds)), below);
        }
        text.line(&bucket, &format!("{labels}{comma}le=\"+Inf\""), self.count);
        text.line(&format!("{name}_sum"), labels, self.sum);
        text.line(&format!("{name}_count"), labels, self.count);
    }
}

/// Serves every metric.
async fn metrics(State(app): State<App>, caller: Caller) -> ApiResult<impl IntoResponse> {
    caller.must_be(Role::Viewer)?;
    let mut text = Text::default();
    app.node().meters.write(&mut text);
    gauges::write(&app, &mut text).await?;
    Ok(([(CONTENT_TYPE, FORMAT)], text.end()))
}
