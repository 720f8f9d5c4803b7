//! [`Calendar`]: a named set of times at which a schedule does not run.
//!
//! Rules are about the wall clock of the calendar's own zone. For an instant a
//! calendar also returns where the excluded period ends, so that a search jumps
//! over a day instead of trying its seconds.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Weekday};
use serde::{Deserialize, Serialize};

use super::error::ScheduleError;
use super::zone::Zone;

/// A named set of excluded times.
///
/// ```
/// use punctual_schedule::{Calendar, Schedule, Zone};
///
/// let free = Calendar::new("free days", Zone::named("Europe/Berlin")?, [
///     "SAT".parse()?, "SUN".parse()?, "12-25".parse()?, "2026-12-28/2027-01-02".parse()?,
/// ])?;
/// let schedule = Schedule::cron("0 9 * * *", "Europe/Berlin")?.excluding(free);
/// let next = schedule.next("2026-12-24T12:00:00Z".parse()?);
/// assert_eq!(next, Some("2027-01-04T08:00:00Z".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "CalendarForm", into = "CalendarForm")]
pub struct Calendar {
    name: String,
    zone: Zone,
    rules: Vec<DayRule>,
}

/// One rule of a calendar, and its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DayRule {
    /// One day, `2026-12-25`.
    Date(Date),
    /// A day of every year, `12-25`.
    Yearly {
        /// 1 to 12.
        month: i8,
        /// 1 to 31; the 29th of February only in leap years.
        day: i8,
    },
    /// A day of every week, `SAT`.
    Weekday(Weekday),
    /// A period of wall clock time, `2026-12-24T18:00/2026-12-27`.
    Stretch {
        /// The first excluded time.
        start: DateTime,
        /// The first time after the period, which is not excluded.
        end: DateTime,
    },
}

const NAME_LEN_MAX: usize = 100;
const RULES_MAX: usize = 1_000;
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

impl Calendar {
    /// Creates a calendar of up to a thousand rules.
    pub fn new(
        name: &str,
        zone: Zone,
        rules: impl IntoIterator<Item = DayRule>,
    ) -> Result<Calendar, ScheduleError> {
        let rules: Vec<DayRule> = rules.into_iter().take(RULES_MAX + 1).collect();
        let problem = if name.trim().is_empty() || name.len() > NAME_LEN_MAX {
            "a name has 1 to 100 bytes"
        } else if name.chars().any(char::is_control) {
            "a name has no control characters"
        } else if rules.len() > RULES_MAX {
            "a calendar has at most 1000 rules, join days to periods"
        } else {
            let name = name.to_owned();
            return Ok(Calendar { name, zone, rules });
        };
        Err(refuse("calendar", name, problem))
    }

    /// Returns the display name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the zone whose wall clock the rules refer to.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// Returns the rules.
    pub fn rules(&self) -> &[DayRule] {
        &self.rules
    }

    /// Returns whether an instant is excluded.
    pub fn excludes(&self, at: Timestamp) -> bool {
        let wall = self.zone.wall(at);
        self.rules.iter().any(|rule| rule.covers(wall))
    }

    /// Returns an instant after this excluded one, before which everything is excluded.
    ///
    /// Computed with the current offset and no further than the next
    /// transition: where clocks go back, the wall clock may leave a rule.
    pub(super) fn excluded_until(&self, at: Timestamp) -> Option<Timestamp> {
        let offset = self.zone.offset(at);
        let wall = offset.to_datetime(at);
        let end = self.covering(wall).map(|rule| rule.end_from(wall)).max()?;
        let end = end.and_then(|end| offset.to_timestamp(end).ok());
        let change = self.zone.transition_after(at);
        [end, change].into_iter().flatten().min().or(Some(Timestamp::MAX))
    }

    /// Returns an instant not after this excluded one, from which on everything up to
    /// it is excluded; computed as in [`excluded_until`](Self::excluded_until).
    pub(super) fn excluded_since(&self, at: Timestamp) -> Option<Timestamp> {
        let offset = self.zone.offset(at);
        let wall = offset.to_datetime(at);
        let start = self.covering(wall).map(|rule| rule.start_of(wall)).min()?;
        let start = offset.to_timestamp(start).ok();
        let change = self.zone.transition_until(at);
        [start, change].into_iter().flatten().max().or(Some(at))
    }

    fn covering(&self, wall: DateTime) -> impl Iterator<Item = &DayRule> {
        self.rules.iter().filter(move |rule| rule.covers(wall))
    }
}

impl DayRule {
    fn covers(&self, wall: DateTime) -> bool {
        match *self {
            DayRule::Date(date) => wall.date() == date,
            DayRule::Yearly { month, day } => wall.month() == month && wall.day() == day,
            DayRule::Weekday(weekday) => wall.weekday() == weekday,
            DayRule::Stretch { start, end } => (start..end).contains(&wall),
        }
    }

    /// Returns the start of the rule that covers a wall clock time.
    fn start_of(&self, wall: DateTime) -> DateTime {
        match *self {
            DayRule::Stretch { start, .. } => start,
            _ => wall.date().at(0, 0, 0, 0),
        }
    }

    /// Returns the end of the rule that covers a wall clock time; `None` at the end of time.
    fn end_from(&self, wall: DateTime) -> Option<DateTime> {
        match *self {
            DayRule::Stretch { end, .. } => Some(end),
            _ => Some(wall.date().tomorrow().ok()?.at(0, 0, 0, 0)),
        }
    }
}

impl FromStr for DayRule {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<DayRule, ScheduleError> {
        let bad = || {
            let start: String = text.chars().take(60).collect();
            let problem = "use a day (2026-12-25), a day of every year (12-25), a weekday (SAT) \
                           or a period (2026-12-24T18:00/2026-12-27)";
            refuse("calendar rule", &start, problem)
        };
        if let Some(place) = WEEKDAYS.iter().position(|name| text.eq_ignore_ascii_case(name)) {
            let place = i8::try_from(place).unwrap_or(0);
            return Weekday::from_sunday_zero_offset(place)
                .map(DayRule::Weekday)
                .map_err(|_| bad());
        }
        if let Some((start, end)) = text.split_once('/') {
            let (start, end) = (start.parse().map_err(|_| bad())?, end.parse().map_err(|_| bad())?);
            return if start < end { Ok(DayRule::Stretch { start, end }) } else { Err(bad()) };
        }
        match text.len() {
            // A leap year, so that the 29th of February can be read.
            5 => format!("2000-{text}")
                .parse()
                .map_err(|_| bad())
                .map(|date: Date| DayRule::Yearly { month: date.month(), day: date.day() }),
            10 => text.parse().map(DayRule::Date).map_err(|_| bad()),
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for DayRule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DayRule::Date(date) => write!(out, "{date}"),
            DayRule::Yearly { month, day } => write!(out, "{month:02}-{day:02}"),
            DayRule::Weekday(weekday) => {
                let place = weekday.to_sunday_zero_offset().unsigned_abs();
                out.write_str(WEEKDAYS[usize::from(place)])
            }
            DayRule::Stretch { start, end } => write!(out, "{start}/{end}"),
        }
    }
}

impl TryFrom<String> for DayRule {
    type Error = ScheduleError;

    fn try_from(text: String) -> Result<DayRule, ScheduleError> {
        text.parse()
    }
}

impl From<DayRule> for String {
    fn from(rule: DayRule) -> String {
        rule.to_string()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CalendarForm {
    name: String,
    #[serde(default)]
    zone: Zone,
    rules: Vec<DayRule>,
}

impl TryFrom<CalendarForm> for Calendar {
    type Error = ScheduleError;

    fn try_from(form: CalendarForm) -> Result<Calendar, ScheduleError> {
        Calendar::new(&form.name, form.zone, form.rules)
    }
}

impl From<Calendar> for CalendarForm {
    fn from(calendar: Calendar) -> CalendarForm {
        CalendarForm { name: calendar.name, zone: calendar.zone, rules: calendar.rules }
    }
}

fn refuse(part: &'static str, text: &str, problem: &str) -> ScheduleError {
    ScheduleError::Part {
        part,
        text: text.chars().take(NAME_LEN_MAX).collect(),
        problem: problem.to_owned(),
    }
}

#[cfg(test)]
mod tests;
