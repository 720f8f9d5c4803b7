//! What happens now, for everybody who looks at this node: figures per second, and one tick a second for
//! all listeners. The storage is asked for counts at most once a second however many look, and seldom while
//! nobody does.

mod figure;
mod kept;
mod rings;

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
pub(crate) use kept::add_written;
pub(crate) use rings::STEPS;

use crate::app::App;
use rings::Rings;

/// How often figures are taken.
const TICK: Duration = Duration::from_secs(1);
/// How long counts hold.
const COUNTS_AGE: Duration = Duration::from_secs(1);
/// For how long after somebody looked counts are taken every second.
const ATTENTION: Duration = Duration::from_secs(10);
/// Every how many seconds they are taken while nobody looks.
const IDLE_EVERY: i64 = 10;
/// Every how many seconds figures are written down.
const WRITE_EVERY: i64 = 60;
/// Over how many seconds rates are measured.
const RATE_SECONDS: u32 = 10;

/// What happens now.
pub(crate) struct Live {
    rings: Mutex<Rings>,
    so_far: Mutex<Figure>,
    gauges: Mutex<Figure>,
    looked_at: Mutex<Option<Timestamp>>,
    counts: crate::cached::Cached<Arc<Counts>>,
    ticks: watch::Sender<Arc<str>>,
}

impl Default for Live {
    fn default() -> Self {
        Self {
            rings: Mutex::default(),
            so_far: Mutex::default(),
            gauges: Mutex::default(),
            looked_at: Mutex::default(),
            counts: crate::cached::Cached::default(),
            ticks: watch::Sender::new(Arc::from("")),
        }
    }
}

/// How many in a second, over the last ten.
#[expect(clippy::struct_field_names, reason = "the names of the API say what is counted in what")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, ToSchema)]
pub(crate) struct Rates {
    /// Messages that a storage accepted.
    pub(crate) in_per_s: f64,
    /// Attempts that succeeded.
    pub(crate) out_per_s: f64,
    /// Attempts that failed.
    pub(crate) failed_per_s: f64,
}

impl Live {
    /// The tick of every second, as text.
    pub(crate) fn ticks(&self) -> watch::Receiver<Arc<str>> {
        self.ticks.subscribe()
    }

    /// The figures of this process.
    pub(crate) fn within(&self, step: i64, from: i64, to: i64) -> Vec<Figure> {
        lock(&self.rings).within(step, from, to)
    }

    /// How many messages there are, where counting is costly and was done lately.
    pub(crate) fn costly_counts(&self, now: Timestamp) -> Option<Arc<Counts>> {
        self.counts.costly(now)
    }

    /// Forgets how many messages there are, because the storage does not answer.
    pub(crate) fn forget_counts(&self) {
        self.counts.forget();
    }

    /// Somebody looks.
    pub(crate) fn looked(&self, now: Timestamp) {
        *lock(&self.looked_at) = Some(now);
    }

    /// How many in a second, in this process.
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
        let looked_at = *lock(&self.looked_at);
        self.ticks.receiver_count() > 0
            || looked_at.is_some_and(|looked_at| between(looked_at, now) < ATTENTION)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many messages there are, as it was found at most a second ago.
pub(crate) async fn counts(app: &App) -> Result<Arc<Counts>> {
    app.node().live.looked(app.clock.now());
    counted(app).await
}

/// The same as it is now, unless counting is costly here: then as it was found some seconds ago.
pub(crate) async fn counts_now(app: &App) -> Result<Arc<Counts>> {
    app.node().live.counts.get(&*app.clock, Duration::ZERO, count(app)).await
}

async fn counted(app: &App) -> Result<Arc<Counts>> {
    app.node().live.counts.get(&*app.clock, COUNTS_AGE, count(app)).await
}

async fn count(app: &App) -> Result<Arc<Counts>> {
    app.inspect.estimate(app.clock.now()).await.map(Arc::new)
}

/// Finds anew what is costly to find and was asked for lately, so that nobody waits for it.
async fn renew(app: &App) -> Result<()> {
    app.node().live.counts.renew(&*app.clock, count(app)).await?;
    crate::api::renew(app).await
}

/// How many messages there are in each state.
pub(crate) fn by_state(counts: &Counts) -> BTreeMap<&'static str, u64> {
    MessageState::ALL.map(|state| (state.as_str(), counts.total(state))).into_iter().collect()
}

/// Takes figures until the process stops.
pub(crate) async fn follow(app: App) {
    // From now on attempts are measured.
    *lock(&app.node().live.so_far) = Figure::so_far(app.punctual.events());
    while !app.punctual.is_stopping() {
        app.clock.sleep_until(next_tick(app.clock.now(), TICK)).await;
        if let Err(error) = tick(&app).await {
            tracing::debug!(%error, "no figures for this second");
        }
    }
    if let Err(error) = kept::write(&app).await {
        tracing::debug!(%error, "the last figures are lost");
    }
    if let Err(error) = app.audit().write_sent(true).await {
        tracing::warn!(%error, "the last messages that were sent are not in the audit trail");
    }
    if let Err(error) = app.audit().write_refused(true).await {
        tracing::warn!(%error, "the last refused logins are not in the audit trail");
    }
}

/// One second is over.
async fn tick(app: &App) -> Result<()> {
    let (live, now) = (&app.node().live, app.clock.now());
    let second = subtract(now, TICK).as_second();
    let so_far = Figure::so_far(app.punctual.events());
    let earlier = std::mem::replace(&mut *lock(&live.so_far), so_far.clone());
    let mut figure = Figure { at: second, ..so_far.since(&earlier) };
    let watched = live.is_watched(now);
    let is_due = watched || now.as_second() % IDLE_EVERY == 0;
    let counts = if is_due {
        if let Err(error) = renew(app).await {
            tracing::debug!(%error, "what is costly to find is not found anew");
        }
        Some(counted(app).await)
    } else {
        None
    };
    if let Some(Ok(counts)) = &counts {
        *lock(&live.gauges) = gauges(app, counts, now);
    }
    figure.gauges = lock(&live.gauges).gauges;
    lock(&live.rings).add(&figure);
    if let Some(Ok(counts)) = counts.as_ref().filter(|_| live.ticks.receiver_count() > 0) {
        let (counts, rates) = (by_state(counts), live.rates(now));
        let text = json!({ "at": now, "counts": counts, "rates": rates }).to_string();
        live.ticks.send_replace(Arc::from(text));
    }
    if let Err(error) = app.audit().write_sent(false).await {
        tracing::warn!(%error, "messages that were sent are not in the audit trail");
    }
    if let Err(error) = app.audit().write_refused(false).await {
        tracing::warn!(%error, "refused logins are not in the audit trail");
    }
    if now.as_second() % WRITE_EVERY == 0 {
        kept::write(app).await?;
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
