//! Wall clock search: the nearest date and time at which all fields
//! match, forward and backward, as "next set bit" per unit.
//!
//! The search is independent of zones. The caller ensures that the expression
//! has occurrences, so a search ends within the 400 years of the calendar's
//! cycle, or at the end of the year 9999, or at the start of the year 1.

use jiff::civil::DateTime;

use super::field::Fields;
use super::month::MonthShape;

const YEAR_FIRST: i16 = 1;
const YEAR_LAST: i16 = 9_999;

/// Hour, minute, second.
type Time = (u32, u32, u32);

impl Fields {
    /// Returns whether a wall clock time is one of this expression.
    pub(super) fn match_wall(&self, wall: DateTime) -> bool {
        let (hour, minute, second) = time_of(wall);
        let (year, month, day) = date_of(wall);
        self.seconds & (1 << second) != 0
            && self.minutes & (1 << minute) != 0
            && self.hours & (1 << hour) != 0
            && self.days_of(year, month) & (1 << day) != 0
    }

    /// Returns the first matching wall clock time at or after one.
    pub(super) fn wall_from(&self, wall: DateTime) -> Option<DateTime> {
        let (mut year, mut month, day) = date_of(wall);
        let mut days = self.days_of(year, month) & (u32::MAX << day);
        if days & (1 << day) != 0 {
            if let Some(time) = self.time_from(time_of(wall)) {
                return at(year, month, day, time);
            }
            days &= !(1 << day);
        }
        while days == 0 {
            // The sets are not empty, so the first month of the next year exists.
            let later = u32::from(self.months) & (u32::MAX << (month + 1));
            month = match later {
                0 if year == YEAR_LAST => return None,
                0 => {
                    year += 1;
                    lowest(self.months.into())
                }
                later => lowest(later.into()),
            };
            days = self.days_of(year, month);
        }
        at(year, month, lowest(days.into()), self.first_time())
    }

    /// Returns the last matching wall clock time at or before one.
    pub(super) fn wall_until(&self, wall: DateTime) -> Option<DateTime> {
        let (mut year, mut month, day) = date_of(wall);
        if year < YEAR_FIRST {
            return None;
        }
        let mut days = self.days_of(year, month) & up_to(day);
        if days & (1 << day) != 0 {
            if let Some(time) = self.time_until(time_of(wall)) {
                return at(year, month, day, time);
            }
            days &= !(1 << day);
        }
        while days == 0 {
            let earlier = u32::from(self.months) & !(u32::MAX << month);
            month = match earlier {
                0 if year == YEAR_FIRST => return None,
                0 => {
                    year -= 1;
                    highest(self.months.into())
                }
                earlier => highest(earlier.into()),
            };
            days = self.days_of(year, month);
        }
        at(year, month, highest(days.into()), self.last_time())
    }

    fn days_of(&self, year: i16, month: u32) -> u32 {
        match self.months & (1 << month) {
            0 => 0,
            _ => self.month_days(MonthShape::of(year, small(month))),
        }
    }

    fn time_from(&self, (hour, minute, second): Time) -> Option<Time> {
        if self.hours & (1 << hour) != 0 {
            if self.minutes & (1 << minute) != 0
                && let Some(second) = bit_from(self.seconds, second)
            {
                return Some((hour, minute, second));
            }
            if let Some(minute) = bit_from(self.minutes, minute + 1) {
                return Some((hour, minute, lowest(self.seconds)));
            }
        }
        let hour = bit_from(self.hours.into(), hour + 1)?;
        Some((hour, lowest(self.minutes), lowest(self.seconds)))
    }

    fn time_until(&self, (hour, minute, second): Time) -> Option<Time> {
        if self.hours & (1 << hour) != 0 {
            if self.minutes & (1 << minute) != 0
                && let Some(second) = bit_below(self.seconds, second + 1)
            {
                return Some((hour, minute, second));
            }
            if let Some(minute) = bit_below(self.minutes, minute) {
                return Some((hour, minute, highest(self.seconds)));
            }
        }
        let hour = bit_below(self.hours.into(), hour)?;
        Some((hour, highest(self.minutes), highest(self.seconds)))
    }

    fn first_time(&self) -> Time {
        (lowest(self.hours.into()), lowest(self.minutes), lowest(self.seconds))
    }

    fn last_time(&self) -> Time {
        (highest(self.hours.into()), highest(self.minutes), highest(self.seconds))
    }
}

/// Returns the lowest set bit at or above a position.
fn bit_from(bits: u64, place: u32) -> Option<u32> {
    match bits & (u64::MAX << place) {
        0 => None,
        bits => Some(lowest(bits)),
    }
}

/// Returns the highest set bit below a position.
fn bit_below(bits: u64, place: u32) -> Option<u32> {
    match bits & !(u64::MAX << place) {
        0 => None,
        bits => Some(highest(bits)),
    }
}

/// Returns the bits up to and including a day of the month.
fn up_to(day: u32) -> u32 {
    u32::MAX >> (31 - day)
}

fn lowest(bits: u64) -> u32 {
    bits.trailing_zeros()
}

fn highest(bits: u64) -> u32 {
    bits.ilog2()
}

fn date_of(wall: DateTime) -> (i16, u32, u32) {
    (wall.year(), wide(wall.month()), wide(wall.day()))
}

fn time_of(wall: DateTime) -> Time {
    (wide(wall.hour()), wide(wall.minute()), wide(wall.second()))
}

fn at(year: i16, month: u32, day: u32, (hour, minute, second): Time) -> Option<DateTime> {
    let part = |value: u32| i8::try_from(value).unwrap_or(0);
    DateTime::new(year, part(month), part(day), part(hour), part(minute), part(second), 0).ok()
}

/// Converts a calendar unit, which is never negative, to a bit number.
fn wide(unit: i8) -> u32 {
    u32::from(unit.unsigned_abs())
}

fn small(unit: u32) -> u8 {
    u8::try_from(unit).unwrap_or(0)
}
