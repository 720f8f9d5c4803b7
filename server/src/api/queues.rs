//! Queues: how each stands, and pausing, resuming, resizing and emptying it.

mod acting;
mod measure;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use punctual::clock::between;
use punctual::inspect::{Counts, MessageFilter};
use punctual::model::{MessageState as Stored, Pause, Queue};
use punctual::storage::{END_OF_TIME, WakeSource};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use self::measure::Measured;
use super::executions::milliseconds;
use super::messages::{LOOKED_AT_MAX, Wanted, look};
use crate::app::App;
use crate::caller::{Caller, Role};
use crate::extract::Path;
use crate::live;
use crate::page::Listing;
use crate::problem::{Answer, Problem};
use crate::queues::{Said, said};

/// The most keys that are shown of a queue.
const KEYS_MAX: usize = 100;

/// What this file answers.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(one))
        .routes(routes!(acting::pause))
        .routes(routes!(acting::resume))
        .routes(routes!(acting::concurrency))
        .routes(routes!(acting::purge))
}

/// A line in which messages wait.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct QueueView {
    /// Its name.
    name: String,
    /// How many wait, now or later.
    pending: u64,
    /// How many of them are due. Where `is_exact` is false, the most that can be.
    ready: u64,
    /// How many of them are not due yet. Where `is_exact` is false, the least that are known of.
    scheduled: u64,
    /// Whether every waiting message was looked at to tell those that are due from those that are not. It is false
    /// while more than 5000 wait in all queues: only the newest 5000 are looked at.
    is_exact: bool,
    /// How many are being handled.
    running: u64,
    /// How many were given up.
    dead: u64,
    /// Since when the oldest one is due that nobody has.
    oldest_due_at: Option<Timestamp>,
    /// How long that is.
    oldest_age_ms: Option<u64>,
    /// How many this process handles at once; null when it does not work on it.
    concurrency: Option<usize>,
    /// How many this process handles now.
    running_here: usize,
    /// Who paused it, why and until when.
    paused: Option<PauseView>,
    /// How many come and go.
    rate: RateView,
    /// How many attempts ended in each of the last 60 minutes, the oldest first.
    spark: Vec<u64>,
}

/// Who paused something, why and until when.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct PauseView {
    by: String,
    reason: String,
    at: Timestamp,
    /// When it ends by itself; null means never.
    until: Option<Timestamp>,
}

impl PauseView {
    pub(crate) fn new(pause: &Pause) -> Self {
        let Pause { by, reason, at, until } = pause.clone();
        Self { by, reason, at, until }
    }
}

/// How many come and go, over the last minute.
#[derive(Clone, Copy, Debug, Default, Serialize, ToSchema)]
pub(crate) struct RateView {
    /// Messages made in a second.
    in_per_s: f64,
    /// Attempts ended in a second.
    out_per_s: f64,
}

/// A queue with what its messages are about.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct QueueDetails {
    /// The queue.
    #[serde(flatten)]
    queue: QueueView,
    /// The keys with the most messages, among the newest that are not finished: at most 10000, and as many as
    /// are found in a moment.
    keys: Vec<KeyView>,
}

/// What messages are about.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct KeyView {
    /// The key.
    key: String,
    /// How many of them wait.
    pending: u64,
    /// How many of them are being handled.
    running: u64,
}

/// Every queue that has messages, that this process works on, or of which something was said; by name.
#[utoipa::path(get, path = "/queues", tag = "queues", responses((status = 200, body = Listing<QueueView>)))]
async fn list(State(app): State<App>, caller: Caller) -> Answer<Json<Listing<QueueView>>> {
    caller.must_be(Role::Viewer)?;
    Ok(Json(Listing::whole(views(&app).await?)))
}

/// Everything that is known of queues.
pub(crate) async fn views(app: &App) -> punctual::Result<Vec<QueueView>> {
    let now = app.clock.now();
    let counts = live::counts_now(app).await?;
    let said = said(app).await?;
    let here: BTreeMap<Queue, (usize, usize)> = app
        .punctual
        .queues()
        .list()
        .into_iter()
        .map(|status| (status.queue, (status.concurrency, status.running)))
        .collect();
    let mut names: BTreeSet<Queue> =
        counts.messages.keys().map(|(queue, _)| queue.clone()).collect();
    names.extend(said.keys().cloned());
    names.extend(here.keys().cloned());
    let names: Vec<Queue> = names.into_iter().collect();
    let lines: Vec<WakeSource> = names.iter().cloned().map(WakeSource::Queue).collect();
    let dues = app.storage.next_due_all(&lines).await?;
    let measured =
        app.node().queues_measured.get(&*app.clock, Duration::ZERO, Measured::of(app)).await?;
    let none = Said::default();
    let views = names.iter().zip(dues).map(|(queue, due)| {
        let known = Known {
            said: said.get(queue).unwrap_or(&none),
            here: here.get(queue).copied().unwrap_or_default(),
            oldest: due.filter(|due| *due <= now),
        };
        view(queue, &counts, &known, &measured, now)
    });
    Ok(views.collect())
}

/// Measures anew where that is costly.
pub(crate) async fn renew(app: &App) -> punctual::Result<()> {
    app.node().queues_measured.renew(&*app.clock, Measured::of(app)).await
}

/// What is known of one queue, besides counts.
struct Known<'a> {
    said: &'a Said,
    here: (usize, usize),
    oldest: Option<Timestamp>,
}

fn view(
    queue: &Queue,
    counts: &Counts,
    known: &Known<'_>,
    measured: &Measured,
    now: Timestamp,
) -> QueueView {
    let of = |state: Stored| counts.messages.get(&(queue.clone(), state)).copied().unwrap_or(0);
    let pending = of(Stored::Pending);
    let scheduled = measured.scheduled(queue).min(pending);
    let (concurrency, running_here) = known.here;
    let (in_per_s, out_per_s) = measured.rates(queue);
    QueueView {
        name: queue.to_string(),
        pending,
        ready: pending - scheduled,
        scheduled,
        is_exact: measured.is_whole(),
        running: of(Stored::Running),
        dead: of(Stored::Dead),
        oldest_due_at: known.oldest,
        oldest_age_ms: known.oldest.map(|due| milliseconds(between(due, now))),
        concurrency: (concurrency > 0).then_some(concurrency),
        running_here,
        paused: known.said.pause(now).map(PauseView::new),
        rate: RateView { in_per_s, out_per_s },
        spark: measured.spark(queue),
    }
}

/// One queue, with what its messages are about.
#[utoipa::path(get, path = "/queues/{name}", tag = "queues", params(("name" = String, Path)),
    responses((status = 200, body = QueueDetails), (status = 404, body = Problem)))]
async fn one(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
) -> Answer<Json<QueueDetails>> {
    caller.must_be(Role::Viewer)?;
    let queue = views(&app).await?.into_iter().find(|queue| queue.name == name);
    let queue = queue.ok_or_else(|| {
        Problem::not_found(format!(
            "there is no queue {name:?}: nothing waits in it, and this process does not work on it"
        ))
    })?;
    let filter = MessageFilter {
        states: vec![Stored::Pending, Stored::Running],
        queue: Some(Queue::from(name)),
        ..MessageFilter::default()
    };
    let wanted = Wanted::from(filter).in_a_moment();
    let found =
        look(&app, &wanted, None, LOOKED_AT_MAX, |record| record.message.key.is_some()).await?;
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

/// Whether a pending message is for later.
fn is_later(due_at: Timestamp, now: Timestamp) -> bool {
    due_at > now || due_at >= END_OF_TIME
}
