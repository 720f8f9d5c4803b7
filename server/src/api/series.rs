//! Measurements over time, for charts: lines, and heat maps of how long things waited and took.

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
use crate::problem::{Answer, Problem};

/// The most points of one answer.
const POINTS_MAX: i64 = 11_000;
/// How many points there are when nobody says from when.
const POINTS_DEFAULT: i64 = 300;
/// The names of steps, in the order of [`STEPS`].
const STEP_NAMES: [&str; STEPS.len()] = ["1s", "10s", "1m", "1h"];

/// What this file answers.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(one))
}

/// What is measured.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Name {
    /// Attempts that succeeded, failed and are tried again, and messages that came, in a second.
    Throughput,
    /// How long after its due time an attempt began, as a heat map.
    Wait,
    /// How long attempts took, as a heat map.
    Run,
    /// How long the oldest due message has waited, in milliseconds.
    QueueAge,
    /// The lines of `wait` without its heat map: for 50, 95 and 99 % of the attempts, of jobs and of other
    /// messages, the upper bound in milliseconds of the row it falls into.
    Lateness,
    /// How many messages are handled, and how many may be at once.
    Concurrency,
    /// Attempts that are tried again, in a second.
    Retries,
    /// Dead letters, and how many were added in a second.
    Dead,
    /// Messages that wait for a transport, and how many were handed over in a second.
    Outbox,
}

/// What is asked for.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct SeriesQuery {
    /// What is measured.
    #[param(inline)]
    name: Name,
    /// From when on; 300 steps when not given.
    from: Option<Timestamp>,
    /// Until when; now when not given.
    to: Option<Timestamp>,
    /// `1s` for the last ten minutes of this node, `10s` for six hours, `1m` for a week, `1h` for a year, of
    /// all nodes.
    step: Option<String>,
}

/// A measurement over time.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct SeriesView {
    /// How long a step is.
    step_ms: i64,
    /// Where each step begins, in seconds since the epoch, as far as anything is known.
    times: Vec<i64>,
    /// One line each.
    series: Vec<LineView>,
    /// The upper bounds of the rows of a heat map; the last row has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    buckets_ms: Option<Vec<u64>>,
    /// The heat map: for each time, how many were in each row.
    #[serde(skip_serializing_if = "Option::is_none")]
    values: Option<Vec<Vec<u64>>>,
}

/// One line of a chart.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct LineView {
    /// What it shows.
    name: &'static str,
    /// Its values; null where nothing is known.
    values: Vec<Option<f64>>,
}

/// A measurement over time.
#[utoipa::path(get, path = "/series", tag = "figures", params(SeriesQuery),
    responses((status = 200, body = SeriesView), (status = 422, body = Problem)))]
async fn one(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<SeriesQuery>,
) -> Answer<Json<SeriesView>> {
    caller.must_be(Role::Viewer)?;
    let now = app.clock.now();
    let (step, from, to) = span(&query, now)?;
    app.node().live.looked(now);
    let ours = app.node().live.within(step, from, to);
    let mut figures: BTreeMap<i64, Figure> =
        ours.into_iter().map(|figure| (figure.at, figure)).collect();
    live::add_written(&app, step, (from, to), &mut figures).await?;
    Ok(Json(view(query.name, step, &figures)))
}

/// The step and the span in seconds.
fn span(query: &SeriesQuery, now: Timestamp) -> Answer<(i64, i64, i64)> {
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
            format!("gives more than {POINTS_MAX} points; choose a longer step or less time");
        return Err(Problem::refused(format!("the span {problem}")).field("from", problem));
    }
    Ok((step, from, to))
}

fn view(name: Name, step: i64, figures: &BTreeMap<i64, Figure>) -> SeriesView {
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
        Name::Wait => Some(|figure| &figure.wait),
        Name::Run => Some(|figure| &figure.run),
        _ => None,
    };
    let values = heat.map(|of| {
        let rows =
            |time| figures.get(time).map_or_else(|| vec![0; BUCKETS], |one| of(one).to_vec());
        times.iter().map(rows).collect()
    });
    let series = shown(name, step).iter().map(|(name, value)| line(name, value)).collect();
    let buckets_ms = heat.map(|_| BOUNDS_MS.to_vec());
    SeriesView { step_ms: step * 1_000, times, series, buckets_ms, values }
}

/// How a line is read off a figure.
type Value = Box<dyn Fn(&Figure) -> Option<f64>>;

/// The lines of a measurement.
fn shown(name: Name, step: i64) -> Vec<(&'static str, Value)> {
    let seconds = number(step.unsigned_abs());
    let per_second = move |count: fn(&Figure) -> u64| -> Value {
        Box::new(move |figure| Some(number(count(figure)) / seconds))
    };
    let gauge =
        |gauge: Gauge| -> Value { Box::new(move |figure| Some(number(figure.gauge(gauge)))) };
    let retried: fn(&Figure) -> u64 =
        |figure| figure.count(Count::Failed).saturating_sub(figure.count(Count::Dead));
    let wait: fn(&Figure) -> &[u64; BUCKETS] = |figure| &figure.wait;
    match name {
        Name::Throughput => vec![
            ("succeeded", per_second(|figure| figure.count(Count::Succeeded))),
            ("failed", per_second(|figure| figure.count(Count::Failed))),
            ("retried", per_second(retried)),
            ("enqueued", per_second(|figure| figure.count(Count::Published))),
        ],
        Name::Wait | Name::Lateness => quantiles(wait),
        Name::Run => quantiles(|figure| &figure.run),
        Name::QueueAge => vec![("oldest", gauge(Gauge::OldestAgeMs))],
        Name::Concurrency => {
            vec![("running", gauge(Gauge::Running)), ("limit", gauge(Gauge::CapacityHere))]
        }
        Name::Retries => vec![("retried", per_second(retried))],
        Name::Dead => vec![
            ("dead", gauge(Gauge::DeadLetters)),
            ("added", per_second(|figure| figure.count(Count::Dead))),
        ],
        Name::Outbox => vec![
            ("waiting", gauge(Gauge::Outbox)),
            ("relayed", per_second(|figure| figure.count(Count::Relayed))),
        ],
    }
}

fn quantiles(of: fn(&Figure) -> &[u64; BUCKETS]) -> Vec<(&'static str, Value)> {
    let line = |part: u64| -> Value { Box::new(move |figure| quantile(of(figure), part)) };
    vec![("p50", line(50)), ("p95", line(95)), ("p99", line(99))]
}

/// The upper bound of the bucket in which so many hundredths end; nothing of nothing.
fn quantile(buckets: &[u64; BUCKETS], hundredths: u64) -> Option<f64> {
    let count: u64 = buckets.iter().sum();
    let wanted = (count * hundredths).div_ceil(100).max(1);
    let mut below = 0;
    let place = buckets.iter().position(|bucket| {
        below += bucket;
        below >= wanted
    })?;
    // What is longer than the last bound is shown at it.
    let bound = BOUNDS_MS.get(place).or(BOUNDS_MS.last())?;
    Some(number(*bound))
}

/// A number for a chart; beyond four thousand millions it no longer matters.
fn number(number: u64) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_the_bounds_of_their_buckets() {
        let mut buckets = [0; BUCKETS];
        assert_eq!(quantile(&buckets, 50), None);
        buckets[0] = 98;
        buckets[3] = 2;
        assert_eq!((quantile(&buckets, 50), quantile(&buckets, 99)), (Some(1.0), Some(10.0)));
        buckets[BUCKETS - 1] = 1_000;
        assert_eq!(quantile(&buckets, 99), Some(3_600_000.0));
    }
}
