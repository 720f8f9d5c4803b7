//! Month masks: the days of a month that an expression selects, as one bit mask.
//!
//! A month is only its length and the weekday of its first day, so all months
//! of all years are 28 shapes, and "never" can be decided without a search.

use super::field::{Days, Fields, WEEK, Weekdays};

/// The length of a month and the weekday of its first day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MonthShape {
    /// 28 to 31.
    pub(super) length: u8,
    /// The weekday of the 1st; Sunday is 0.
    pub(super) first: u8,
}

impl MonthShape {
    pub(super) fn of(year: i16, month: u8) -> MonthShape {
        MonthShape { length: month_length(year, month), first: first_weekday(year, month) }
    }

    fn weekday(self, day: u8) -> u8 {
        (self.first + day - 1) % 7
    }

    /// Returns the Monday to Friday nearest to a day, within the month.
    fn nearest_workday(self, day: u8) -> u8 {
        match self.weekday(day) {
            6 if day > 1 => day - 1,
            6 => day + 2,
            0 if day < self.length => day + 1,
            0 => day - 2,
            _ => day,
        }
    }
}

impl Fields {
    /// Returns the days of such a month on which both day fields agree; bit n is day n.
    pub(super) fn month_days(&self, month: MonthShape) -> u32 {
        self.days.mask(month) & self.weekdays.mask(month)
    }

    /// Returns whether any month of any year has a day for this expression.
    pub(super) fn happens(&self) -> bool {
        (1..=12).any(|month| {
            let lengths = match month {
                2 => 28..=29,
                4 | 6 | 9 | 11 => 30..=30,
                _ => 31..=31,
            };
            self.months & (1 << month) != 0
                && lengths.into_iter().any(|length| {
                    (0..7).any(|first| self.month_days(MonthShape { length, first }) != 0)
                })
        })
    }
}

impl Days {
    fn mask(self, month: MonthShape) -> u32 {
        match self {
            Days::Set(days) => days & (u32::MAX >> (31 - month.length)),
            Days::Nearest(day) if day > month.length => 0,
            Days::Nearest(day) => 1 << month.nearest_workday(day),
            Days::Last { before, .. } if before >= month.length => 0,
            Days::Last { before, nearest } => {
                let day = month.length - before;
                if nearest { 1 << month.nearest_workday(day) } else { 1 << day }
            }
        }
    }
}

impl Weekdays {
    fn mask(self, month: MonthShape) -> u32 {
        match self {
            Weekdays::Set(WEEK) => u32::MAX,
            Weekdays::Set(days) => {
                // Bit 0 becomes the weekday of the 1st; five weeks cover 31 days.
                let doubled = u32::from(days) | (u32::from(days) << 7);
                let week = (doubled >> month.first) & u32::from(WEEK);
                (week | (week << 7) | (week << 14) | (week << 21) | (week << 28)) << 1
            }
            Weekdays::Nth { weekday, nth } => {
                let day = 1 + (weekday + 7 - month.first) % 7 + 7 * (nth - 1);
                if day <= month.length { 1 << day } else { 0 }
            }
            Weekdays::Last(weekday) => {
                1 << (month.length - (month.weekday(month.length) + 7 - weekday) % 7)
            }
        }
    }
}

fn month_length(year: i16, month: u8) -> u8 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn is_leap(year: i16) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Sakamoto's formula: the days before each month, in a year that starts in March.
fn first_weekday(year: i16, month: u8) -> u8 {
    const SHIFT: [i32; 12] = [0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4];
    let year = match month {
        1 | 2 => i32::from(year) - 1,
        _ => i32::from(year),
    };
    let leaps = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let days = year + leaps + SHIFT[usize::from(month - 1)] + 1;
    u8::try_from(days.rem_euclid(7)).unwrap_or(0)
}
