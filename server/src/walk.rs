//! Walks over schedules on behalf of requests. Each is bounded in steps and in time, is computed away from
//! the threads that serve requests, and ends when nobody waits for its answer any more.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use jiff::Timestamp;
use punctual::clock::add;
use punctual::schedule::Schedule;
use punctual::{Clock, Error};

use crate::app::App;
use crate::problem::{Answer, Problem};

/// How many walks are computed at once; the others wait for one to end.
pub(crate) const WALKS_AT_ONCE: usize = 2;
/// The most occurrences that are looked for in one walk.
const STEPS_MAX: u64 = 200_000;
/// How long one walk may take.
const LEN_MAX: Duration = Duration::from_secs(2);
/// After how many steps the clock is read.
const STEPS_BETWEEN_LOOKS: u64 = 256;

/// What a walk may still do.
pub(crate) struct Walk {
    clock: Arc<dyn Clock>,
    ends_at: Timestamp,
    steps: Cell<u64>,
    is_over: Cell<bool>,
    is_abandoned: Arc<AtomicBool>,
}

impl Walk {
    fn new(clock: Arc<dyn Clock>, is_abandoned: Arc<AtomicBool>) -> Self {
        let ends_at = add(clock.now(), LEN_MAX);
        Self { clock, ends_at, steps: Cell::new(0), is_over: Cell::new(false), is_abandoned }
    }

    /// Whether it ended before everything was found.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.get()
    }

    /// Takes so many steps, unless the walk is over.
    fn may_step(&self, count: u64) -> bool {
        if self.is_over() {
            return false;
        }
        let (before, after) = (self.steps.get(), self.steps.get().saturating_add(count));
        self.steps.set(after);
        let looks = before / STEPS_BETWEEN_LOOKS < after / STEPS_BETWEEN_LOOKS;
        let is_late = looks
            && (self.is_abandoned.load(Ordering::Relaxed) || self.clock.now() >= self.ends_at);
        if after > STEPS_MAX || is_late {
            self.is_over.set(true);
        }
        !self.is_over()
    }

    /// The first occurrence after an instant; none when there is none, or the walk is over.
    pub(crate) fn next(&self, schedule: &Schedule, after: Timestamp) -> Option<Timestamp> {
        self.may_step(1).then(|| schedule.next(after)).flatten()
    }

    /// The occurrences after an instant, as long as the walk lasts.
    pub(crate) fn after<'a>(
        &'a self,
        schedule: &'a Schedule,
        after: Timestamp,
    ) -> impl Iterator<Item = Timestamp> + use<'a> {
        std::iter::successors(self.next(schedule, after), |at| self.next(schedule, *at))
    }

    /// The occurrences before an instant, newest first, as long as the walk lasts.
    pub(crate) fn before<'a>(
        &'a self,
        schedule: &'a Schedule,
        before: Timestamp,
    ) -> impl Iterator<Item = Timestamp> + use<'a> {
        let prev = |at: Timestamp| self.may_step(1).then(|| schedule.prev(at)).flatten();
        std::iter::successors(prev(before), move |at| prev(*at))
    }

    /// How many occurrences lie after one instant and not after another, at most so many.
    pub(crate) fn count(
        &self,
        schedule: &Schedule,
        (after, until): (Timestamp, Timestamp),
        count_max: u64,
    ) -> u64 {
        if schedule.is_interval() && schedule.calendars().is_empty() {
            return schedule.count(after, until, count_max);
        }
        let most = usize::try_from(count_max).unwrap_or(usize::MAX);
        let within = self.after(schedule, after).take_while(|at| *at <= until);
        within.take(most).count() as u64
    }
}

/// Ends a walk when the request that waits for it ends.
struct Abandon(Arc<AtomicBool>);

impl Drop for Abandon {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Computes something that walks over schedules, and says whether the walk ended too soon.
pub(crate) async fn walk_some<T: Send + 'static>(
    app: &App,
    work: impl FnOnce(&Walk) -> T + Send + 'static,
) -> Answer<(T, bool)> {
    let seat = app.node().walks.clone().acquire_owned().await;
    let seat = seat.map_err(|_| Error::unavailable("the server is stopping"))?;
    let is_abandoned = Arc::new(AtomicBool::new(false));
    let _abandon = Abandon(is_abandoned.clone());
    let clock = app.clock.clone();
    let computed = tokio::task::spawn_blocking(move || {
        let walk = Walk::new(clock, is_abandoned);
        let found = work(&walk);
        // Held as long as it computes, also when nobody waits any more.
        drop(seat);
        (found, walk.is_over())
    });
    let broke_off = |error| Error::internal("a walk over a schedule broke off").caused_by(error);
    Ok(computed.await.map_err(broke_off)?)
}

/// The same for what is of no use unless it is complete.
pub(crate) async fn walk<T: Send + 'static>(
    app: &App,
    work: impl FnOnce(&Walk) -> T + Send + 'static,
) -> Answer<T> {
    match walk_some(app, work).await? {
        (found, false) => Ok(found),
        (_, true) => Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "this takes too many steps over the schedule; ask for fewer times, or a shorter range",
        )),
    }
}

#[cfg(test)]
mod tests {
    use punctual::ManualClock;

    use super::*;

    fn start() -> (Arc<ManualClock>, Timestamp, Arc<AtomicBool>) {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        (Arc::new(ManualClock::new(now)), now, Arc::default())
    }

    #[test]
    fn a_walk_ends_after_its_steps_and_says_so() {
        let (clock, now, abandoned) = start();
        let walk = Walk::new(clock, abandoned);
        let schedule = Schedule::cron_utc("* * * * * *").unwrap();
        assert_eq!(walk.after(&schedule, now).take(10).count(), 10);
        assert!(!walk.is_over());
        assert!((walk.after(&schedule, now).count() as u64) < STEPS_MAX);
        assert!(walk.is_over() && walk.next(&schedule, now).is_none());
        assert_eq!(walk.before(&schedule, now).count(), 0);
    }

    #[test]
    fn a_walk_ends_when_its_time_is_over_or_nobody_waits() {
        let (clock, now, abandoned) = start();
        let schedule = Schedule::cron_utc("* * * * *").unwrap();
        let late = Walk::new(clock.clone(), abandoned.clone());
        clock.advance(LEN_MAX);
        assert!((late.after(&schedule, now).count() as u64) < STEPS_BETWEEN_LOOKS);
        let left = Walk::new(clock, abandoned.clone());
        drop(Abandon(abandoned));
        assert!((left.before(&schedule, now).count() as u64) < STEPS_BETWEEN_LOOKS);
    }

    #[test]
    fn a_count_is_what_the_schedule_counts() {
        let (clock, now, abandoned) = start();
        let walk = Walk::new(clock, abandoned);
        let until = add(now, Duration::from_hours(24));
        let every = Schedule::every(Duration::from_secs(1), now).unwrap();
        assert_eq!(walk.count(&every, (now, until), u64::MAX), 86_400);
        let hourly = Schedule::cron_utc("0 * * * *").unwrap();
        assert_eq!(walk.count(&hourly, (now, until), u64::MAX), 24);
        assert_eq!(walk.count(&hourly, (now, until), 5), 5);
    }
}
