//! Time series for charts: lines, and heat maps of waits and durations.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use punctual::measure::BOUNDS_MS;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::caller::{Caller, Role};
use crate::extract::Query;
use crate::live::{self, BUCKETS, Count, Figure, Gauge, STEPS};
use crate::problem::{ApiResult, Problem};

/// Largest number of points of a response.
const POINTS_MAX: i64 = 11_000;
/// Default number of points.
const POINTS_DEFAULT: i64 = 300;
/// Names of the steps, in the order of [`STEPS`].
const STEP_NAMES: [&str; STEPS.len()] = ["1s", "10s", "1m", "1h"];

/// Returns the routes of this module.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(get))
}

/// A time series.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum SeriesName {
    /// Succeeded, failed and retried attempts and created messages per second.
    Throughput,
    /// Time between due time and start of attempts, as a heat map.
    Wait,
    /// Duration of attempts, as a heat map.
    Run,
    /// Wait of the oldest due message in milliseconds.
    QueueAge,
    /// The lines of `wait` without the heat map: 50th, 95th and 99th percentile in milliseconds, as upper
    /// bounds of their buckets.
    Lateness,
    /// Running messages, and the concurrency limit.
    Concurrency,
    /// Retried attempts per second.
    Retries,
    /// Dead letters, and new ones per second.
    Dead,
    /// Messages that wait for a transport, and relayed ones per second.
    Outbox,
}

/// Series and time range.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct SeriesQuery {
    /// Name of the series.
    #[param(inline)]
    name: SeriesName,
    /// Start of the range. Default: 300 steps before its end.
    from: Option<Timestamp>,
    /// End of the range. Default: now.
    to: Option<Timestamp>,
    /// Step: `1s` (the default) for the last ten minutes of this node; `10s` for six hours, `1m` for a week and
    /// `1h` for a year of all nodes.
    step: Option<String>,
}

/// A time series.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct SeriesView {
    /// Step in milliseconds.
    step_ms: i64,
    /// Start of each step with data, in seconds since the Unix epoch.
    times: Vec<i64>,
    /// Lines of the chart.
    series: Vec<LineView>,
    /// Upper bounds of the rows of a heat map in milliseconds; the last row has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    buckets_ms: Option<Vec<u64>>,
    /// Heat map: for each time the count of each row.
    #[serde(skip_serializing_if = "Option::is_none")]
    values: Option<Vec<Vec<u64>>>,
}

/// One line of a chart.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct LineView {
    /// Name of the line.
    name: &'static str,
    /// Values; null without data.
    values: Vec<Option<f64>>,
}

/// Returns a time series.
#[utoipa::path(get, path = "/series", tag = "metrics", params(SeriesQuery),
    responses((status = 200, body = SeriesView), (status = 422, body = Problem)))]
async fn get(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<SeriesQuery>,
) -> ApiResult<Json<SeriesView>> {
    caller.must_be(Role::Viewer)?;
    let now = app.clock.now();
    let (step, from, to) = range(&query, now)?;
    app.node().live.note_viewer(now);
    let recent = app.node().live.within(step, from, to);
    let mut figures: BTreeMap<i64, Figure> =
        recent.into_iter().map(|figure| (figure.at, figure)).collect();
    live::add_written(&app, step, (from, to), &mut figures).await?;
    Ok(Json(view(query.name, step, &figures)))
}

/// Returns the step, the start and the end in seconds. Fails for an invalid range.
fn range(query: &SeriesQuery, now: Timestamp) -> ApiResult<(i64, i64, i64)> {
    let name = query.step.as_deref().unwrap_or("1s");
    let place = STEP_NAMES.iter().position(|known| *known == name);
    let Some((step, _)) = place.and_then(|place| STEPS.get(place)).copied() else {
        let problem = format!("must be one of {}", STEP_NAMES.join(", "));
        return Err(Problem::refused(format!("`step` {name:?} {problem}")).field("step", problem));
    };
    let to = query.to.unwrap_or(now).as_second();
    let from = query.from.map_or(to - POINTS_DEFAULT * step, Timestamp::as_second);
    let from = from.div_euclid(step) * step;
    if from >= to && query.from.is_some() {
        let problem = "must be before `to`";
        return Err(Problem::refused(format!("`from` {problem}")).field("from", problem));
    }
    if (to - from) / step > POINTS_MAX {
        let problem =
            format!("has more than {POINTS_MAX} points; use a longer step or a shorter range");
        return Err(Problem::refused(format!("the range {problem}")).field("from", problem));
    }
    Ok((step, from, to))
}

fn view(name: SeriesName, step: i64, figures: &BTreeMap<i64, Figure>) -> SeriesView {
    let (first, last) = (figures.keys().next(), figures.keys().next_back());
    let times: Vec<i64> = match (first, last) {
        (Some(first), Some(last)) => {
            (0..=(last - first) / step).map(|number| first + number * step).collect()
        }
        _ => Vec::new(),
    };
    let line = |name, value: &dyn Fn(&Figure) -> Option<f64>| LineView {
        name,
        values: times.iter().map(|time| figures.get(time).and_then(value)).collect(),
    };
    let heat: Option<fn(&Figure) -> &[u64; BUCKETS]> = match name {
        SeriesName::Wait => Some(|figure| &figure.wait),
        SeriesName::Run => Some(|figure| &figure.run),
        _ => None,
    };
    let values = heat.map(|of| {
        let rows =
            |time| figures.get(time).map_or_else(|| vec![0; BUCKETS], |one| of(one).to_vec());
        times.iter().map(rows).collect()
    });
    let series = lines(name, step).iter().map(|(name, value)| line(name, value)).collect();
    let buckets_ms = heat.map(|_| BOUNDS_MS.to_vec());
    SeriesView { step_ms: step * 1_000, times, series, buckets_ms, values }
}

/// Reads the value of a line from a figure.
type Reader = Box<dyn Fn(&Figure) -> Option<f64>>;

/// Returns the lines of a series.
fn lines(name: SeriesName, step: i64) -> Vec<(&'static str, Reader)> {
    let seconds = number(step.unsigned_abs());
    let per_second = move |count: fn(&Figure) -> u64| -> Reader {
        Box::new(move |figure| Some(number(count(figure)) / seconds))
    };
    let gauge =
        |gauge: Gauge| -> Reader { Box::new(move |figure| Some(number(figure.gauge(gauge)))) };
    let retried: fn(&Figure) -> u64 =
        |figure| figure.count(Count::Failed).saturating_sub(figure.count(Count::Dead));
    let wait: fn(&Figure) -> &[u64; BUCKETS] = |figure| &figure.wait;
    match name {
        SeriesName::Throughput => vec![
            ("succeeded", per_second(|figure| figure.count(Count::Succeeded))),
            ("failed", per_second(|figure| figure.count(Count::Failed))),
            ("retried", per_second(retried)),
            ("enqueued", per_second(|figure| figure.count(Count::Published))),
        ],
        SeriesName::Wait | SeriesName::Lateness => percentiles(wait),
        SeriesName::Run => percentiles(|figure| &figure.run),
        SeriesName::QueueAge => vec![("oldest", gauge(Gauge::OldestAgeMs))],
        SeriesName::Concurrency => {
            vec![("running", gauge(Gauge::Running)), ("limit", gauge(Gauge::CapacityHere))]
        }
        SeriesName::Retries => vec![("retried", per_second(retried))],
        SeriesName::Dead => vec![
            ("dead", gauge(Gauge::DeadLetters)),
            ("added", per_second(|figure| figure.count(Count::Dead))),
        ],
        SeriesName::Outbox => vec![
            ("waiting", gauge(Gauge::Outbox)),
            ("relayed", per_second(|figure| figure.count(Count::Relayed))),
        ],
    }
}

fn percentiles(of: fn(&Figure) -> &[u64; BUCKETS]) -> Vec<(&'static str, Reader)> {
    let line = |percent: u64| -> Reader { Box::new(move |figure| percentile(of(figure), percent)) };
    vec![("p50", line(50)), ("p95", line(95)), ("p99", line(99))]
}

/// Returns the upper bound of the bucket of a percentile; `None` without data.
fn percentile(buckets: &[u64; BUCKETS], percent: u64) -> Option<f64> {
    let count: u64 = buckets.iter().sum();
    let rank = (count * percent).div_ceil(100).max(1);
    let mut below = 0;
    let place = buckets.iter().position(|bucket| {
        below += bucket;
        below >= rank
    })?;
    // Values above the last bound are shown at it.
    let bound = BOUNDS_MS.get(place).or(BOUNDS_MS.last())?;
    Some(number(*bound))
}

/// Converts a number for a chart, limited to `u32::MAX`.
fn number(number: u64) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_bounds_of_their_buckets() {
        let mut buckets = [0; BUCKETS];
        assert_eq!(percentile(&buckets, 50), None);
        buckets[0] = 98;
        buckets[3] = 2;
        assert_eq!((percentile(&buckets, 50), percentile(&buckets, 99)), (Some(1.0), Some(10.0)));
        buckets[BUCKETS - 1] = 1_000;
        assert_eq!(percentile(&buckets, 99), Some(3_600_000.0));
    }
}
