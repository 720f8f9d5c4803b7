//! Live statistics of this node: rates per second, and one tick per second for all event streams. Counts are read
//! from the storage at most once a second however many viewers there are, and rarely without viewers.

mod figure;
mod history;
mod ring_buffers;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use punctual::Result;
use punctual::clock::{between, next_tick, subtract};
use punctual::inspect::Counts;
use punctual::model::MessageState;
use serde::Serialize;
use serde_json::json;
use tokio::sync::watch;
use utoipa::ToSchema;

pub(crate) use figure::{BUCKETS, Count, Figure, Gauge};
pub(crate) use history::add_written;
pub(crate) use ring_buffers::STEPS;

use crate::app::App;
use ring_buffers::RingBuffers;

/// Sampling interval of figures.
const TICK: Duration = Duration::from_secs(1);
/// How long counts are cached.
const COUNTS_AGE: Duration = Duration::from_secs(1);
/// How long after the last viewer counts are still read every second.
const VIEWER_TTL: Duration = Duration::from_secs(10);
/// Interval of counts in seconds without viewers.
const IDLE_SECONDS: i64 = 10;
/// Interval in seconds of writing figures to the storage.
const WRITE_SECONDS: i64 = 60;
/// Window of rates in seconds.
const RATE_SECONDS: u32 = 10;

/// Live statistics of this node.
pub(crate) struct Live {
    buffers: Mutex<RingBuffers>,
    totals: Mutex<Figure>,
    gauges: Mutex<Figure>,
    viewed_at: Mutex<Option<Timestamp>>,
    counts: crate::cache::CachedValue<Arc<Counts>>,
    ticks: watch::Sender<Arc<str>>,
}

impl Default for Live {
    fn default() -> Self {
        Self {
            buffers: Mutex::default(),
            totals: Mutex::default(),
            gauges: Mutex::default(),
            viewed_at: Mutex::default(),
            counts: crate::cache::CachedValue::default(),
            ticks: watch::Sender::new(Arc::from("")),
        }
    }
}

/// Rates per second over the last ten seconds.
#[expect(clippy::struct_field_names, reason = "the names of the API say what is counted in what")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, ToSchema)]
pub(crate) struct Rates {
    /// Messages that were stored.
    pub(crate) in_per_s: f64,
    /// Attempts that succeeded.
    pub(crate) out_per_s: f64,
    /// Attempts that failed.
    pub(crate) failed_per_s: f64,
}

impl Live {
    /// Subscribes to the tick of every second, as JSON text.
    pub(crate) fn ticks(&self) -> watch::Receiver<Arc<str>> {
        self.ticks.subscribe()
    }

    /// Returns the figures of this process of a step within a span.
    pub(crate) fn within(&self, step: i64, from: i64, to: i64) -> Vec<Figure> {
        lock(&self.buffers).within(step, from, to)
    }

    /// Returns the cached counts if counting is expensive.
    pub(crate) fn expensive_counts(&self, now: Timestamp) -> Option<Arc<Counts>> {
        self.counts.expensive(now)
    }

    /// Drops the cached counts because the storage does not respond.
    pub(crate) fn forget_counts(&self) {
        self.counts.forget();
    }

    /// Records a viewer, so that counts are read every second.
    pub(crate) fn note_viewer(&self, now: Timestamp) {
        *lock(&self.viewed_at) = Some(now);
    }

    /// Returns the rates of this process.
    pub(crate) fn rates(&self, now: Timestamp) -> Rates {
        let to = now.as_second();
        let figures = self.within(1, to - i64::from(RATE_SECONDS), to);
        let rate = |count| {
            let sum: u64 = figures.iter().map(|figure| figure.count(count)).sum();
            f64::from(u32::try_from(sum).unwrap_or(u32::MAX)) / f64::from(RATE_SECONDS)
        };
        Rates {
            in_per_s: rate(Count::Published),
            out_per_s: rate(Count::Succeeded),
            failed_per_s: rate(Count::Failed),
        }
    }

    fn is_watched(&self, now: Timestamp) -> bool {
        let viewed_at = *lock(&self.viewed_at);
        self.ticks.receiver_count() > 0
            || viewed_at.is_some_and(|viewed_at| between(viewed_at, now) < VIEWER_TTL)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the counts of messages, at most a second old.
pub(crate) async fn counts(app: &App) -> Result<Arc<Counts>> {
    app.node().live.note_viewer(app.clock.now());
    cached_counts(app).await
}

/// Returns the current counts of messages; those of a few seconds ago when counting is expensive.
pub(crate) async fn counts_now(app: &App) -> Result<Arc<Counts>> {
    app.node().live.counts.get(&*app.clock, Duration::ZERO, count(app)).await
}

async fn cached_counts(app: &App) -> Result<Arc<Counts>> {
    app.node().live.counts.get(&*app.clock, COUNTS_AGE, count(app)).await
}

async fn count(app: &App) -> Result<Arc<Counts>> {
    app.inspect.estimate(app.clock.now()).await.map(Arc::new)
}

/// Recomputes expensive cached values that were read recently, so that no request waits for them.
async fn renew(app: &App) -> Result<()> {
    app.node().live.counts.renew(&*app.clock, count(app)).await?;
    crate::api::renew(app).await
}

/// Returns the number of messages in each state.
pub(crate) fn by_state(counts: &Counts) -> BTreeMap<&'static str, u64> {
    MessageState::ALL.map(|state| (state.as_str(), counts.total(state))).into_iter().collect()
}

/// Samples figures until the process stops.
pub(crate) async fn follow(app: App) {
    // The baseline of the first figure.
    *lock(&app.node().live.totals) = Figure::totals(app.punctual.events());
    while !app.punctual.is_stopping() {
        app.clock.sleep_until(next_tick(app.clock.now(), TICK)).await;
        if let Err(error) = tick(&app).await {
            tracing::debug!(%error, "figures of this second could not be sampled");
        }
    }
    if let Err(error) = history::write(&app).await {
        tracing::debug!(%error, "the last figures could not be written");
    }
    if let Err(error) = app.audit().write_sent(true).await {
        tracing::warn!(%error, "the last published messages were not written to the audit trail");
    }
    if let Err(error) = app.audit().write_refused(true).await {
        tracing::warn!(%error, "the last refused logins were not written to the audit trail");
    }
}

/// Samples the figures of the last second and sends the tick.
async fn tick(app: &App) -> Result<()> {
    let (live, now) = (&app.node().live, app.clock.now());
    let second = subtract(now, TICK).as_second();
    let totals = Figure::totals(app.punctual.events());
    let earlier = std::mem::replace(&mut *lock(&live.totals), totals.clone());
    let mut figure = Figure { at: second, ..totals.since(&earlier) };
    let watched = live.is_watched(now);
    let is_due = watched || now.as_second() % IDLE_SECONDS == 0;
    let counts = if is_due {
        if let Err(error) = renew(app).await {
            tracing::debug!(%error, "expensive cached values were not recomputed");
        }
        Some(cached_counts(app).await)
    } else {
        None
    };
    if let Some(Ok(counts)) = &counts {
        *lock(&live.gauges) = gauges(app, counts, now);
    }
    figure.gauges = lock(&live.gauges).gauges;
    lock(&live.buffers).add(&figure);
    if let Some(Ok(counts)) = counts.as_ref().filter(|_| live.ticks.receiver_count() > 0) {
        let (counts, rates) = (by_state(counts), live.rates(now));
        let text = json!({ "at": now, "counts": counts, "rates": rates }).to_string();
        live.ticks.send_replace(Arc::from(text));
    }
    if let Err(error) = app.audit().write_sent(false).await {
        tracing::warn!(%error, "published messages were not written to the audit trail");
    }
    if let Err(error) = app.audit().write_refused(false).await {
        tracing::warn!(%error, "refused logins were not written to the audit trail");
    }
    if now.as_second() % WRITE_SECONDS == 0 {
        history::write(app).await?;
    }
    counts.transpose().map(|_| ())
}

fn gauges(app: &App, counts: &Counts, now: Timestamp) -> Figure {
    let mut figure = Figure::default();
    let waiting = counts.messages.iter().filter(|((_, state), _)| *state == MessageState::Pending);
    let outbox = waiting.filter(|((queue, _), _)| queue.is_relay()).map(|(_, count)| count);
    let age = counts.oldest_due.map_or(Duration::ZERO, |due| between(due, now));
    let queues = app.punctual.queues().list();
    let here = queues.iter().map(|status| status.running as u64).sum();
    let capacity = queues.iter().map(|status| status.concurrency as u64).sum();
    figure.set(Gauge::Outbox, outbox.sum());
    figure.set(Gauge::Pending, counts.total(MessageState::Pending));
    figure.set(Gauge::Running, counts.total(MessageState::Running));
    figure.set(Gauge::DeadLetters, counts.total(MessageState::Dead));
    figure.set(Gauge::OldestAgeMs, crate::api::milliseconds(age));
    figure.set(Gauge::RunningHere, here);
    figure.set(Gauge::CapacityHere, capacity);
    figure
}
