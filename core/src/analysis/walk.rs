//! Walks over schedules, which may take long: each is bounded in steps and time, runs on a blocking thread, and ends
//! when the future that waits for it is dropped.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Semaphore;

use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::model::time::add;
use crate::schedule::Schedule;

/// Largest number of occurrences computed in one walk.
const STEPS_MAX: u64 = 200_000;
/// Timeout of one walk.
const WALK_TIMEOUT: Duration = Duration::from_secs(2);
/// Number of steps between checks of the clock.
const STEPS_PER_CHECK: u64 = 256;

/// Budget of a walk.
pub(crate) struct Walk {
    clock: Arc<dyn Clock>,
    ends_at: Timestamp,
    steps: Cell<u64>,
    is_over: Cell<bool>,
    is_abandoned: Arc<AtomicBool>,
}

impl Walk {
    fn new(clock: Arc<dyn Clock>, is_abandoned: Arc<AtomicBool>) -> Self {
        let ends_at = add(clock.now(), WALK_TIMEOUT);
        Self { clock, ends_at, steps: Cell::new(0), is_over: Cell::new(false), is_abandoned }
    }

    /// Returns whether the walk ended before it was complete.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.get()
    }

    /// Takes `count` steps; returns false when the walk is over.
    fn may_step(&self, count: u64) -> bool {
        if self.is_over() {
            return false;
        }
        let (before, after) = (self.steps.get(), self.steps.get().saturating_add(count));
        self.steps.set(after);
        let checks = before / STEPS_PER_CHECK < after / STEPS_PER_CHECK;
        let is_late = checks
            && (self.is_abandoned.load(Ordering::Relaxed) || self.clock.now() >= self.ends_at);
        if after > STEPS_MAX || is_late {
            self.is_over.set(true);
        }
        !self.is_over()
    }

    /// Returns the first occurrence after an instant; none when there is none or the walk is over.
    pub(crate) fn next(&self, schedule: &Schedule, after: Timestamp) -> Option<Timestamp> {
        self.may_step(1).then(|| schedule.next(after)).flatten()
    }

    /// Returns the occurrences after an instant until the walk is over.
    pub(crate) fn after<'a>(
        &'a self,
        schedule: &'a Schedule,
        after: Timestamp,
    ) -> impl Iterator<Item = Timestamp> + use<'a> {
        std::iter::successors(self.next(schedule, after), |at| self.next(schedule, *at))
    }

    /// Returns the occurrences before an instant, newest first, until the walk is over.
    pub(crate) fn before<'a>(
        &'a self,
        schedule: &'a Schedule,
        before: Timestamp,
    ) -> impl Iterator<Item = Timestamp> + use<'a> {
        let prev = |at: Timestamp| self.may_step(1).then(|| schedule.prev(at)).flatten();
        std::iter::successors(prev(before), move |at| prev(*at))
    }

    /// Counts the occurrences after one instant and not after another, up to `count_max`.
    pub(crate) fn count(
        &self,
        schedule: &Schedule,
        (after, until): (Timestamp, Timestamp),
        count_max: u64,
    ) -> u64 {
        if schedule.is_interval() && schedule.calendars().is_empty() {
            return schedule.count(after, until, count_max);
        }
        let max = usize::try_from(count_max).unwrap_or(usize::MAX);
        let within = self.after(schedule, after).take_while(|at| *at <= until);
        within.take(max).count() as u64
    }
}

/// Ends a walk when the future that waits for it is dropped.
struct Abandon(Arc<AtomicBool>);

impl Drop for Abandon {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs a computation over schedules when one of the permits is free; returns its result and whether the walk ended
/// before it was complete.
pub(crate) async fn walk_some<T: Send + 'static>(
    clock: Arc<dyn Clock>,
    permits: Arc<Semaphore>,
    work: impl FnOnce(&Walk) -> T + Send + 'static,
) -> Result<(T, bool)> {
    let permit = permits.acquire_owned().await;
    let permit = permit.map_err(|_| Error::unavailable("the process is stopping"))?;
    let is_abandoned = Arc::new(AtomicBool::new(false));
    let _abandon = Abandon(is_abandoned.clone());
    let computed = tokio::task::spawn_blocking(move || {
        let walk = Walk::new(clock, is_abandoned);
        let found = work(&walk);
        // Held until the computation ends, even when nothing waits for it any more.
        drop(permit);
        (found, walk.is_over())
    });
    let interrupted =
        |error| Error::internal("a walk over a schedule was interrupted").caused_by(error);
    computed.await.map_err(interrupted)
}

/// Runs a computation like [`walk_some`], but fails when the walk ended before it was complete.
pub(crate) async fn walk<T: Send + 'static>(
    clock: Arc<dyn Clock>,
    permits: Arc<Semaphore>,
    work: impl FnOnce(&Walk) -> T + Send + 'static,
) -> Result<T> {
    match walk_some(clock, permits, work).await? {
        (found, false) => Ok(found),
        (_, true) => Err(Error::unavailable(
            "this takes too many steps over the schedule; request fewer times or a shorter range",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::ManualClock;

    fn start() -> (Arc<ManualClock>, Timestamp, Arc<AtomicBool>) {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        (Arc::new(ManualClock::new(now)), now, Arc::default())
    }

    #[test]
    fn a_walk_ends_after_its_steps_and_reports_it() {
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
    fn a_walk_ends_at_its_timeout_or_when_abandoned() {
        let (clock, now, abandoned) = start();
        let schedule = Schedule::cron_utc("* * * * *").unwrap();
        let late = Walk::new(clock.clone(), abandoned.clone());
        clock.advance(WALK_TIMEOUT);
        assert!((late.after(&schedule, now).count() as u64) < STEPS_PER_CHECK);
        let dropped = Walk::new(clock, abandoned.clone());
        drop(Abandon(abandoned));
        assert!((dropped.before(&schedule, now).count() as u64) < STEPS_PER_CHECK);
    }

    #[test]
    fn a_count_equals_that_of_the_schedule() {
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
