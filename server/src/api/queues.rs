//! Queues: list and details; pause, resume, resize and purge.

mod actions;
mod measurements;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use punctual::backend::storage::{END_OF_TIME, WakeSource};
use punctual::clock::between;
use punctual::inspect::{Counts, MessageFilter};
use punctual::model::{MessageState as Stored, Pause, Queue};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use self::measurements::QueueMeasurements;
use super::executions::milliseconds;
use super::messages::{MessageSelection, SCANNED_MAX, search};
use crate::app::App;
use crate::caller::{Caller, Role};
use crate::extract::Path;
use crate::live;
use crate::page::Listing;
use crate::problem::{ApiResult, Problem};
use crate::queues::{QueueSettings, all_settings};

/// Largest number of keys shown of a queue.
const KEYS_MAX: usize = 100;

/// Returns the routes of this module.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(get))
        .routes(routes!(actions::pause))
        .routes(routes!(actions::resume))
        .routes(routes!(actions::concurrency))
        .routes(routes!(actions::purge))
}

/// A queue and its counts.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct QueueView {
    /// Name of the queue.
    name: String,
    /// Number of pending messages, due now or later.
    pending: u64,
    /// Number of due messages; an upper bound when `is_exact` is false.
    ready: u64,
    /// Number of messages that are not due yet; a lower bound when `is_exact` is false.
    scheduled: u64,
    /// Whether `ready` and `scheduled` are exact. They are bounds while more than 5000 messages are pending in all
    /// queues, because only the newest 5000 are read.
    is_exact: bool,
    /// Number of running messages.
    running: u64,
    /// Number of dead letters.
    dead: u64,
    /// Due time of the oldest due message that is not claimed.
    oldest_due_at: Option<Timestamp>,
    /// Time since then in milliseconds.
    oldest_age_ms: Option<u64>,
    /// Concurrency of this process; null when it does not work on the queue.
    concurrency: Option<usize>,
    /// Number of messages running in this process.
    running_here: usize,
    /// Current pause; null when the queue is not paused.
    paused: Option<PauseView>,
    /// Message rates.
    rate: RateView,
    /// Number of finished attempts in each of the last 60 minutes, oldest first.
    spark: Vec<u64>,
}

/// A pause.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct PauseView {
    /// Name of the user who paused it.
    by: String,
    /// Reason of the pause.
    reason: String,
    /// Start of the pause.
    at: Timestamp,
    /// End of the pause; null without one.
    until: Option<Timestamp>,
}

impl PauseView {
    pub(crate) fn new(pause: &Pause) -> Self {
        let Pause { by, reason, at, until } = pause.clone();
        Self { by, reason, at, until }
    }
}

/// Message rates over the last minute.
#[derive(Clone, Copy, Debug, Default, Serialize, ToSchema)]
pub(crate) struct RateView {
    /// Created messages per second.
    in_per_s: f64,
    /// Finished attempts per second.
    out_per_s: f64,
}

/// A queue with the keys of its messages.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct QueueDetails {
    /// State of the queue.
    #[serde(flatten)]
    queue: QueueView,
    /// Keys with the most messages, among up to 10000 of the newest unfinished messages.
    keys: Vec<KeyView>,
}

/// Messages of a key.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct KeyView {
    /// The key.
    key: String,
    /// Number of its pending messages.
    pending: u64,
    /// Number of its running messages.
    running: u64,
}

/// Lists queues by name: those with messages, with settings, or that this process works on.
#[utoipa::path(get, path = "/queues", tag = "queues", responses((status = 200, body = Listing<QueueView>)))]
async fn list(State(app): State<App>, caller: Caller) -> ApiResult<Json<Listing<QueueView>>> {
    caller.must_be(Role::Viewer)?;
    Ok(Json(Listing::whole(views(&app).await?)))
}

/// Returns the views of all queues.
pub(crate) async fn views(app: &App) -> punctual::Result<Vec<QueueView>> {
    let now = app.clock.now();
    let counts = live::counts_now(app).await?;
    let settings = all_settings(app).await?;
    let here: BTreeMap<Queue, (usize, usize)> = app
        .punctual
        .queues()
        .list()
        .into_iter()
        .map(|status| (status.queue, (status.concurrency, status.running)))
        .collect();
    let mut names: BTreeSet<Queue> =
        counts.messages.keys().map(|(queue, _)| queue.clone()).collect();
    names.extend(settings.keys().cloned());
    names.extend(here.keys().cloned());
    let names: Vec<Queue> = names.into_iter().collect();
    let sources: Vec<WakeSource> = names.iter().cloned().map(WakeSource::Queue).collect();
    let dues = app.storage.next_due_all(&sources).await?;
    let measured = app
        .node()
        .queues_measured
        .get(&*app.clock, Duration::ZERO, QueueMeasurements::of(app))
        .await?;
    let none = QueueSettings::default();
    let views = names.iter().zip(dues).map(|(queue, due)| {
        let facts = QueueFacts {
            settings: settings.get(queue).unwrap_or(&none),
            here: here.get(queue).copied().unwrap_or_default(),
            oldest: due.filter(|due| *due <= now),
        };
        view(queue, &counts, &facts, &measured, now)
    });
    Ok(views.collect())
}

/// Refreshes the cached measurements.
pub(crate) async fn renew(app: &App) -> punctual::Result<()> {
    app.node().queues_measured.renew(&*app.clock, QueueMeasurements::of(app)).await
}

/// Facts about one queue besides counts.
struct QueueFacts<'a> {
    settings: &'a QueueSettings,
    /// Concurrency and number of running messages in this process.
    here: (usize, usize),
    /// Due time of the oldest due message.
    oldest: Option<Timestamp>,
}

fn view(
    queue: &Queue,
    counts: &Counts,
    facts: &QueueFacts<'_>,
    measured: &QueueMeasurements,
    now: Timestamp,
) -> QueueView {
    let of = |state: Stored| counts.messages.get(&(queue.clone(), state)).copied().unwrap_or(0);
    let pending = of(Stored::Pending);
    let scheduled = measured.scheduled(queue).min(pending);
    let (concurrency, running_here) = facts.here;
    let (in_per_s, out_per_s) = measured.rates(queue);
    QueueView {
        name: queue.to_string(),
        pending,
        ready: pending - scheduled,
        scheduled,
        is_exact: measured.is_complete(),
        running: of(Stored::Running),
        dead: of(Stored::Dead),
        oldest_due_at: facts.oldest,
        oldest_age_ms: facts.oldest.map(|due| milliseconds(between(due, now))),
        concurrency: (concurrency > 0).then_some(concurrency),
        running_here,
        paused: facts.settings.pause(now).map(PauseView::new),
        rate: RateView { in_per_s, out_per_s },
        spark: measured.spark(queue),
    }
}

/// Returns a queue with the keys of its messages.
#[utoipa::path(get, path = "/queues/{name}", tag = "queues", params(("name" = String, Path)),
    responses((status = 200, body = QueueDetails), (status = 404, body = Problem)))]
async fn get(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
) -> ApiResult<Json<QueueDetails>> {
    caller.must_be(Role::Viewer)?;
    let queue = views(&app).await?.into_iter().find(|queue| queue.name == name);
    let queue = queue.ok_or_else(|| {
        Problem::not_found(format!(
            "there is no queue {name:?}: it has no messages, and this process does not work on it"
        ))
    })?;
    let filter = MessageFilter {
        states: vec![Stored::Pending, Stored::Running],
        queue: Some(Queue::from(name)),
        ..MessageFilter::default()
    };
    let selection = MessageSelection::from(filter).for_page();
    let found =
        search(&app, &selection, None, SCANNED_MAX, |record| record.message.key.is_some()).await?;
    let mut keys: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for record in &found.rows {
        if let Some(key) = &record.message.key {
            let counts = keys.entry(key.to_string()).or_default();
            match record.state {
                Stored::Running => counts.1 += 1,
                _ => counts.0 += 1,
            }
        }
    }
    let views = keys.into_iter().map(|(key, (pending, running))| KeyView { key, pending, running });
    let mut keys: Vec<KeyView> = views.collect();
    keys.sort_by_key(|key| std::cmp::Reverse(key.pending + key.running));
    keys.truncate(KEYS_MAX);
    Ok(Json(QueueDetails { queue, keys }))
}

/// Returns whether a pending message is due later.
fn is_later(due_at: Timestamp, now: Timestamp) -> bool {
    due_at > now || due_at >= END_OF_TIME
}
