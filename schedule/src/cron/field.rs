//! The six fields of a cron expression: their names, ranges and values.
//!
//! [`Fields`] is the whole meaning of an expression; two expressions are equal
//! when their fields are. It is independent of text, dates and zones.

use std::fmt;

/// One of the fields of a cron expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CronField {
    /// Second, 0 to 59; left out of five-field texts.
    Second,
    /// Minute, 0 to 59.
    Minute,
    /// Hour, 0 to 23.
    Hour,
    /// Day of the month, 1 to 31.
    Day,
    /// Month, 1 to 12 or JAN to DEC.
    Month,
    /// Day of the week, 0 to 7 or SUN to SAT; both 0 and 7 are Sunday.
    Weekday,
}

impl CronField {
    /// The fields in the order in which they are written.
    pub(super) const ALL: [CronField; 6] = [
        CronField::Second,
        CronField::Minute,
        CronField::Hour,
        CronField::Day,
        CronField::Month,
        CronField::Weekday,
    ];

    /// Returns the field's name as error messages write it.
    pub fn name(self) -> &'static str {
        match self {
            CronField::Second => "second",
            CronField::Minute => "minute",
            CronField::Hour => "hour",
            CronField::Day => "day of month",
            CronField::Month => "month",
            CronField::Weekday => "day of week",
        }
    }

    /// Returns the smallest value.
    pub(super) fn low(self) -> u8 {
        match self {
            CronField::Day | CronField::Month => 1,
            _ => 0,
        }
    }

    /// Returns the largest value; also the largest step.
    pub(super) fn high(self) -> u8 {
        match self {
            CronField::Second | CronField::Minute => 59,
            CronField::Hour => 23,
            CronField::Day => 31,
            CronField::Month => 12,
            CronField::Weekday => 7,
        }
    }

    /// Returns the number of distinct values; the two Sundays count once.
    pub(super) fn cycle_len(self) -> u8 {
        match self {
            CronField::Weekday => 7,
            _ => self.high() - self.low() + 1,
        }
    }

    /// Returns the highest value `H` may draw: every month has it, and no value twice.
    pub(super) fn hashed_high(self) -> u8 {
        match self {
            CronField::Day => 28,
            CronField::Weekday => 6,
            _ => self.high(),
        }
    }

    /// Returns whether a star, range or step in this field makes the expression follow
    /// elapsed time when clocks change.
    pub(super) fn is_time(self) -> bool {
        matches!(self, CronField::Second | CronField::Minute | CronField::Hour)
    }

    /// Returns the names of the values, from [`low`](Self::low) upwards.
    pub(super) fn value_names(self) -> &'static [&'static str] {
        match self {
            CronField::Month => &MONTHS,
            CronField::Weekday => &WEEKDAYS,
            _ => &[],
        }
    }

    /// Returns the values in words, for error messages.
    pub(super) fn allowed(self) -> &'static str {
        match self {
            CronField::Second | CronField::Minute => "0 to 59",
            CronField::Hour => "0 to 23",
            CronField::Day => "1 to 31, L, L-n, LW or nW",
            CronField::Month => "1 to 12 or JAN to DEC",
            CronField::Weekday => "0 to 7 or SUN to SAT, dL or d#k",
        }
    }
}

impl fmt::Display for CronField {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];

const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// Every bit of the seven weekdays.
pub(super) const WEEK: u8 = 0b0111_1111;

/// The meaning of an expression, as bit sets (bit n for value n).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Fields {
    pub(super) seconds: u64,
    pub(super) minutes: u64,
    pub(super) hours: u32,
    pub(super) days: Days,
    pub(super) months: u16,
    pub(super) weekdays: Weekdays,
    /// A time field holds a star, range or step: follow elapsed time.
    pub(super) interval_like: bool,
}

/// The day-of-month field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Days {
    /// Bits 1 to 31.
    Set(u32),
    /// `nW`: the weekday nearest to a day.
    Nearest(u8),
    /// `L-n`, and with `nearest` `L-nW`.
    Last { before: u8, nearest: bool },
}

/// The day-of-week field; Sunday is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Weekdays {
    /// Bits 0 to 6.
    Set(u8),
    /// `d#k`: the k-th such weekday of the month.
    Nth { weekday: u8, nth: u8 },
    /// `dL`: the last such weekday of the month.
    Last(u8),
}
