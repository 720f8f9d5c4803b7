//! Storage clock: a clock that follows the storage's time and is never ahead of it.
//!
//! A call that reads the storage's time proves two bounds: the storage read its clock after the call
//! began and before it returned. The clock shows the earlier bound, so nothing that is due by it is due
//! early, however slow the network is. Between two calls it advances with the steady clock of the
//! machine, so setting the machine's clock changes nothing.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};

use super::{Clock, add, between, within};
use crate::error::Result;
use crate::storage::Storage;

/// Largest number of readings of the storage's time until it is exact enough.
const SAMPLES_MAX: usize = 3;
/// The widest bounds that are exact enough, regardless of earlier readings.
const EXACT_WIDTH_MAX: Duration = Duration::from_millis(5);
/// How much the clocks of two machines may drift apart: one part in two thousand, the fastest that a
/// clock is slewed.
const DRIFT_PARTS: u32 = 2_000;
/// Timeout of the first reading of the storage's time.
const FIRST_ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// How long calls use the clock of the machine after the storage did not return its time.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// A clock corrected by the storage's own time, so that many machines agree without any statement
/// at which the storage read its clock. It is never ahead of the storage's clock.
#[derive(Debug)]
pub struct StorageClock {
    base: Arc<dyn Clock>,
    /// What the last calls proved; none before the first.
    proven: Mutex<Option<Bounds>>,
    /// The same for readers: the earlier bound and how far the later one is from it.
    offset_nanoseconds: AtomicI64,
    width_nanoseconds: AtomicU64,
    is_corrected: AtomicBool,
    /// When the last call for the storage's time failed, by the steady clock.
    failed_at: Mutex<Option<Timestamp>>,
}

/// By how much the storage's clock is ahead of the steady clock: at least `earliest`, at most `latest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    earliest: SignedDuration,
    latest: SignedDuration,
    /// When this was proven, by the steady clock.
    proven_at: Timestamp,
}

impl Bounds {
    /// Returns the bounds of a reading: the storage read its clock between the call and its return.
    fn of_reading(storage_time: Timestamp, called_at: Timestamp, returned_at: Timestamp) -> Self {
        Self {
            earliest: storage_time.duration_since(returned_at),
            latest: storage_time.duration_since(called_at),
            proven_at: returned_at,
        }
    }

    fn width(&self) -> Duration {
        Duration::try_from(self.latest - self.earliest).unwrap_or(Duration::ZERO)
    }

    /// Returns what is still certain at a later instant: the two clocks drift apart.
    fn at(self, now: Timestamp) -> Self {
        let drift = between(self.proven_at, now) / DRIFT_PARTS;
        let drift = SignedDuration::try_from(drift).unwrap_or(SignedDuration::MAX);
        Self {
            earliest: self.earliest.saturating_sub(drift),
            latest: self.latest.saturating_add(drift),
            proven_at: self.proven_at.max(now),
        }
    }

    /// Returns what both prove together. When they contradict each other a clock was set in between, and
    /// only the new reading is valid.
    fn narrowed_by(self, reading: Self) -> Self {
        let known = self.at(reading.proven_at);
        let earliest = known.earliest.max(reading.earliest);
        let latest = known.latest.min(reading.latest);
        if earliest > latest {
            return reading;
        }
        Self { earliest, latest, proven_at: reading.proven_at }
    }

    /// Whether another reading is unlikely to improve the bounds: this one is exact, or about as fast as those before.
    fn is_enough_beside(&self, known: Option<Self>) -> bool {
        let usual = known.map_or(Duration::ZERO, |known| known.at(self.proven_at).width() * 2);
        self.width() <= usual.max(EXACT_WIDTH_MAX)
    }
}

impl StorageClock {
    /// A clock that is not corrected yet.
    pub fn new(base: Arc<dyn Clock>) -> Self {
        Self {
            base,
            proven: Mutex::new(None),
            offset_nanoseconds: AtomicI64::new(0),
            width_nanoseconds: AtomicU64::new(0),
            is_corrected: AtomicBool::new(false),
            failed_at: Mutex::new(None),
        }
    }

    /// Reads the storage's time unless it was read before. Waits two seconds at most, and after a
    /// failure only every ten seconds, so that a storage out of reach does not delay every call.
    pub(crate) async fn follow_first(&self, storage: &dyn Storage) {
        if self.is_corrected.load(Ordering::Acquire) || self.has_failed_lately() {
            return;
        }
        let until = add(self.now(), FIRST_ANSWER_TIMEOUT);
        if !matches!(within(self, until, self.follow(storage)).await, Some(Ok(_))) {
            let mut failed_at = self.failed_at.lock().unwrap_or_else(PoisonError::into_inner);
            *failed_at = Some(self.base.steady());
        }
    }

    fn has_failed_lately(&self) -> bool {
        let failed_at = *self.failed_at.lock().unwrap_or_else(PoisonError::into_inner);
        failed_at.is_some_and(|at| between(at, self.base.steady()) < ASK_AGAIN_AFTER)
    }

    /// Reads the storage's time and follows it from now on; returns the present instant.
    ///
    /// A slow call, such as the one that opens a connection, proves little and is repeated.
    pub async fn follow(&self, storage: &dyn Storage) -> Result<Timestamp> {
        let known = *self.proven.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..SAMPLES_MAX {
            let called_at = self.base.steady();
            let storage_time = storage.time().await?;
            let reading = Bounds::of_reading(storage_time, called_at, self.base.steady());
            self.learn(reading);
            if reading.is_enough_beside(known) {
                break;
            }
        }
        Ok(self.now())
    }

    /// Takes the bounds of a call into account.
    fn learn(&self, reading: Bounds) {
        let mut proven = self.proven.lock().unwrap_or_else(PoisonError::into_inner);
        let known = proven.map_or(reading, |known| known.narrowed_by(reading));
        *proven = Some(known);
        let offset = i64::try_from(known.earliest.as_nanos()).unwrap_or(0);
        let width = u64::try_from(known.width().as_nanos()).unwrap_or(u64::MAX);
        self.offset_nanoseconds.store(offset, Ordering::Relaxed);
        self.width_nanoseconds.store(width, Ordering::Relaxed);
        self.is_corrected.store(true, Ordering::Release);
    }

    /// Returns by how much the storage is ahead of the base clock; negative when it is behind.
    pub fn ahead(&self) -> SignedDuration {
        self.now().duration_since(self.base.now())
    }

    /// Returns the latest instant that it may be by the storage's clock. A delay counts from here, so that
    /// it is never shorter than requested.
    pub fn latest(&self) -> Timestamp {
        let width = Duration::from_nanos(self.width_nanoseconds.load(Ordering::Relaxed));
        add(self.now(), width)
    }
}

#[async_trait]
impl Clock for StorageClock {
    fn now(&self) -> Timestamp {
        if !self.is_corrected.load(Ordering::Acquire) {
            return self.base.now();
        }
        let offset = SignedDuration::from_nanos(self.offset_nanoseconds.load(Ordering::Relaxed));
        self.base.steady().checked_add(offset).unwrap_or(Timestamp::MAX)
    }

    fn steady(&self) -> Timestamp {
        self.base.steady()
    }

    async fn sleep_until(&self, instant: Timestamp) {
        let on_base = instant.checked_sub(self.ahead()).unwrap_or(instant);
        self.base.sleep_until(on_base).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millisecond: i64) -> Timestamp {
        Timestamp::from_millisecond(millisecond).unwrap()
    }

    fn ms(milliseconds: i64) -> SignedDuration {
        SignedDuration::from_millis(milliseconds)
    }

    #[test]
    fn a_reading_is_as_old_as_its_call() {
        let reading = Bounds::of_reading(at(5_000), at(1_000), at(1_100));
        assert_eq!((reading.earliest, reading.latest), (ms(3_900), ms(4_000)));
        assert_eq!(reading.width(), Duration::from_millis(100));
    }

    #[test]
    fn two_readings_narrow_the_bounds() {
        let slow = Bounds::of_reading(at(5_000), at(1_000), at(1_100));
        let quick = Bounds::of_reading(at(5_150), at(1_200), at(1_204));
        let both = slow.narrowed_by(quick);
        assert_eq!((both.earliest, both.latest), (ms(3_946), ms(3_950)));
        // The other way round the slow one takes nothing away but the drift of 200 ms.
        let slow = Bounds::of_reading(at(5_300), at(1_304), at(1_404));
        let both = quick.narrowed_by(slow);
        assert_eq!(both.earliest, ms(3_946) - SignedDuration::from_micros(100));
        assert_eq!(both.latest, ms(3_950) + SignedDuration::from_micros(100));
    }

    #[test]
    fn a_contradicting_reading_replaces_the_bounds() {
        let before = Bounds::of_reading(at(5_000), at(1_000), at(1_001));
        let after = Bounds::of_reading(at(3_605_000), at(2_000), at(2_010));
        assert_eq!(before.narrowed_by(after), after);
        assert_eq!(after.narrowed_by(before), before);
    }

    #[test]
    fn a_slow_reading_is_enough_only_when_all_are_slow() {
        let slow = Bounds::of_reading(at(5_000), at(1_000), at(1_040));
        assert!(!slow.is_enough_beside(None), "the first may have opened the connection");
        assert!(slow.is_enough_beside(Some(slow)));
        let quick = Bounds::of_reading(at(5_000), at(1_000), at(1_001));
        assert!(quick.is_enough_beside(None));
        assert!(!slow.is_enough_beside(Some(quick)));
    }
}
