//! Rates: how many may start now. One instant per name is all that is remembered: until when the
//! starts so far have used the rate up. A name that was silent for a whole span may use it at once.

use jiff::Timestamp;

use crate::clock::{add, between, subtract};
use crate::model::Rate;

/// How many may start, and when one more may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permitted {
    /// How many.
    pub granted: u32,
    /// When the next one may start.
    pub next_at: Timestamp,
}

/// Lets as many of `wanted` start as a rate allows; answers that and until when the rate is used up
/// from now on, which is `used_until` the next time.
pub fn permit(
    rate: Rate,
    used_until: Option<Timestamp>,
    wanted: u32,
    now: Timestamp,
) -> (Permitted, Timestamp) {
    // Counted by the clock that only this name's starts move, so no start is counted twice. One in
    // the far future, from a clock that was wrong, is not believed beyond one span.
    let limit = add(now, rate.per);
    let base = used_until.unwrap_or(now).clamp(now, limit);
    let step = rate.per / rate.count.max(1);
    let room = between(base, limit);
    let fits = if step.is_zero() { u128::from(wanted) } else { room.as_nanos() / step.as_nanos() };
    let granted = wanted.min(u32::try_from(fits).unwrap_or(u32::MAX));
    let used_until = add(base, step.saturating_mul(granted));
    let next_at = subtract(add(used_until, step), rate.per).max(now);
    (Permitted { granted, next_at }, used_until)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const RATE: Rate = Rate { count: 10, per: Duration::from_secs(1) };

    fn at(millisecond: i64) -> Timestamp {
        Timestamp::from_millisecond(millisecond).unwrap()
    }

    #[test]
    fn a_silent_name_may_use_its_whole_rate_at_once_and_then_waits() {
        let (first, used) = permit(RATE, None, 25, at(0));
        assert_eq!((first.granted, first.next_at), (10, at(100)));
        let (second, used) = permit(RATE, Some(used), 15, at(0));
        assert_eq!((second.granted, second.next_at), (0, at(100)));
        let (third, _) = permit(RATE, Some(used), 15, at(250));
        assert_eq!((third.granted, third.next_at), (2, at(300)));
    }

    #[test]
    fn no_span_of_time_sees_more_than_twice_and_no_long_run_more_than_the_rate() {
        let (mut used, mut granted) = (None, 0);
        for millisecond in 0..10_000 {
            let (now, next) = permit(RATE, used, 3, at(millisecond));
            granted += now.granted;
            used = Some(next);
        }
        // Ten seconds at ten a second, and the ten of the silent span before.
        assert_eq!(granted, 109);
    }

    #[test]
    fn a_mark_from_a_wrong_clock_is_not_believed_beyond_one_span() {
        let (now, _) = permit(RATE, Some(at(3_600_000)), 1, at(0));
        assert_eq!((now.granted, now.next_at), (0, at(100)));
    }

    #[test]
    fn a_rate_finer_than_a_nanosecond_lets_everything_through() {
        let fine = Rate { count: u32::MAX, per: Duration::from_nanos(1) };
        assert_eq!(permit(fine, None, 7, at(0)).0.granted, 7);
    }
}
