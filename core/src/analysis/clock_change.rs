//! Clock changes of a time zone, and notes about their effect on the times of a schedule.

use jiff::civil::Time;
use jiff::tz::{AmbiguousOffset, Offset};
use jiff::{SignedDuration, Timestamp};

use crate::schedule::{Schedule, Zone, format_duration};

/// Largest number of clock changes listed for one zone.
const CHANGES_MAX: usize = 100;

/// Longest distance to the previous time at which a clock change between them gets a note: two days, one of them an
/// hour longer.
const NEAR: SignedDuration = SignedDuration::from_hours(49);

/// A time of a schedule, in its time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduledTime {
    /// The instant.
    pub at: Timestamp,
    /// The time zone; UTC for schedules without one.
    pub zone: Zone,
    /// Effect of a clock change on this time; `None` when there is none.
    pub note: Option<String>,
}

impl ScheduledTime {
    /// Describes a time of a schedule.
    pub(crate) fn new(schedule: &Schedule, at: Timestamp) -> Self {
        Self { at, zone: schedule.zone(), note: note(schedule, at) }
    }
}

/// Describes the effect of a clock change on a time of a schedule.
fn note(schedule: &Schedule, at: Timestamp) -> Option<String> {
    let (cron, zone) = (schedule.as_cron()?, schedule.zone());
    if !zone.changes_clocks() {
        return None;
    }
    let wall = zone.wall(at);
    let clock = wall.time();
    if !cron.matches(at, &zone) {
        let change = clock_changes(&zone, just_before(at), at).pop()?;
        return Some(format!(
            "clock change: the clocks jump from {} to {}, so runs planned in between start at {}",
            clock_text(change.wall_before()),
            clock_text(change.wall_after()),
            clock_text(clock)
        ));
    }
    if let AmbiguousOffset::Fold { before, .. } =
        zone.time_zone().to_ambiguous_timestamp(wall).offset()
    {
        let which = match (zone.offset(at) == before, cron.is_interval_like()) {
            (true, true) => "this is the first time",
            (true, false) => "it runs the first time only",
            (false, _) => "this is the second time",
        };
        return Some(format!(
            "clock change: {} occurs twice on this day; {which}",
            clock_text(clock)
        ));
    }
    // Between two times of a rare schedule there is nearly always a change, which affects neither of them.
    let last = schedule.prev(at).filter(|last| at.duration_since(*last) <= NEAR)?;
    let change = clock_changes(&zone, last, at).pop()?;
    Some(format!("clock change: the clocks {} since the previous time", change.moved("went")))
}

/// A change of a zone's offset from UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockChange {
    /// First time with the new offset.
    pub at: Timestamp,
    before: Offset,
    after: Offset,
}

impl ClockChange {
    /// Describes the change, such as "the clocks go forward by 1h, from 02:00 to 03:00".
    pub fn describe(&self) -> String {
        let (before, after) = (clock_text(self.wall_before()), clock_text(self.wall_after()));
        format!("the clocks {}, from {before} to {after}", self.moved("go"))
    }

    fn wall_before(&self) -> Time {
        self.before.to_datetime(self.at).time()
    }

    fn wall_after(&self) -> Time {
        self.after.to_datetime(self.at).time()
    }

    fn moved(&self, verb: &str) -> String {
        let by = self.before.duration_until(self.after);
        let direction = if by.is_negative() { "back" } else { "forward" };
        format!("{verb} {direction} by {}", format_duration(by.unsigned_abs()))
    }
}

/// Returns the clock changes of a zone after `after` and up to `until`, the first hundred.
pub fn clock_changes(zone: &Zone, after: Timestamp, until: Timestamp) -> Vec<ClockChange> {
    let following = zone.time_zone().following(after).take(CHANGES_MAX);
    following
        .map(|transition| transition.timestamp())
        .take_while(|at| *at <= until)
        .map(|at| ClockChange { at, before: zone.offset(just_before(at)), after: zone.offset(at) })
        // Some transitions only change the abbreviation of the zone.
        .filter(|change| change.before != change.after)
        .collect()
}

/// Returns the previous nanosecond, so that "strictly after" includes `at`.
pub(crate) fn just_before(at: Timestamp) -> Timestamp {
    at.checked_sub(SignedDuration::from_nanos(1)).unwrap_or(Timestamp::MIN)
}

/// Returns the next nanosecond, so that "from" excludes `at`.
pub(crate) fn just_after(at: Timestamp) -> Timestamp {
    at.checked_add(SignedDuration::from_nanos(1)).unwrap_or(Timestamp::MAX)
}

fn clock_text(time: Time) -> String {
    match time.second() {
        0 => format!("{:02}:{:02}", time.hour(), time.minute()),
        second => format!("{:02}:{:02}:{second:02}", time.hour(), time.minute()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn notes(cron: &str, after: &str, count: usize) -> Vec<(String, Option<String>)> {
        let schedule = Schedule::cron(cron, "Europe/Berlin").unwrap();
        let times = std::iter::successors(schedule.next(at(after)), |at| schedule.next(*at));
        let times = times.take(count).map(|at| ScheduledTime::new(&schedule, at));
        let local = |time: &ScheduledTime| {
            let zoned = time.at.to_zoned(time.zone.time_zone().clone());
            zoned.strftime("%Y-%m-%dT%H:%M:%S %:z").to_string()
        };
        times.map(|time| (local(&time), time.note)).collect()
    }

    #[test]
    fn a_time_in_the_gap_has_a_note_about_the_move() {
        let notes = notes("30 2 * * *", "2026-03-27T12:00:00Z", 3);
        let note = notes[1].1.as_deref().unwrap();
        assert_eq!(notes[0], ("2026-03-28T02:30:00 +01:00".to_owned(), None));
        assert_eq!(notes[1].0, "2026-03-29T03:00:00 +02:00");
        assert!(note.contains("jump from 02:00 to 03:00"), "{note}");
        assert_eq!(notes[2], ("2026-03-30T02:30:00 +02:00".to_owned(), None));
    }

    #[test]
    fn a_repeated_time_has_a_note_about_which_pass_it_is() {
        let fixed = notes("30 2 * * *", "2026-10-24T12:00:00Z", 2);
        assert!(fixed[0].1.as_deref().unwrap().ends_with("it runs the first time only"));
        let stepped = notes("*/30 * * * *", "2026-10-24T23:59:00Z", 4);
        let [first, _, second, _] = stepped.as_slice() else { panic!("four times") };
        assert_eq!(
            (first.0.as_str(), second.0.as_str()),
            ("2026-10-25T02:00:00 +02:00", "2026-10-25T02:00:00 +01:00")
        );
        assert!(first.1.as_deref().unwrap().ends_with("this is the first time"));
        assert!(second.1.as_deref().unwrap().ends_with("this is the second time"));
    }

    // Half of the rows of a quarterly job had a note about a clock change.
    #[test]
    fn times_far_apart_have_no_note_about_changes_in_between() {
        let quarterly = notes("0 12 1 */3 *", "2026-01-02T00:00:00Z", 8);
        assert!(quarterly.iter().all(|(_, note)| note.is_none()), "{quarterly:?}");
        let weekly = notes("0 12 * * 1", "2026-03-20T00:00:00Z", 3);
        assert!(weekly.iter().all(|(_, note)| note.is_none()), "{weekly:?}");
        let yearly_in_the_gap = notes("30 2 29 3 *", "2026-01-01T00:00:00Z", 1);
        assert!(
            yearly_in_the_gap[0].1.as_deref().unwrap().contains("jump"),
            "{yearly_in_the_gap:?}"
        );
    }

    #[test]
    fn the_first_time_after_a_change_has_a_note_and_utc_never_has() {
        let notes = notes("0 12 * * *", "2026-03-28T00:00:00Z", 3);
        let noted: Vec<bool> = notes.iter().map(|(_, note)| note.is_some()).collect();
        assert_eq!(noted, [false, true, false]);
        assert!(notes[1].1.as_deref().unwrap().contains("went forward by 1h"), "{notes:?}");
        let every_other_day = self::notes("0 12 */2 * *", "2026-03-26T00:00:00Z", 3);
        assert!(every_other_day[1].0.starts_with("2026-03-29"), "{every_other_day:?}");
        assert!(every_other_day[1].1.is_some());
        let utc = Schedule::cron_utc("30 2 * * *").unwrap();
        assert_eq!(ScheduledTime::new(&utc, at("2026-03-29T02:30:00Z")).note, None);
    }
}
