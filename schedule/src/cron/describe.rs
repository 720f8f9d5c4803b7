//! Descriptions: an expression in words, from its parsed value and not from its text: "every
//! 15 minutes of the hours 9 to 17, on Monday to Friday".
//!
//! Units are listed from the smallest upwards. Both day fields must match, which
//! the text states.

use super::field::{Days, Fields, WEEK, Weekdays};
use super::words::{join, list, month, nth, ordinal, values, weekday};

const SIXTY: u64 = (1 << 60) - 1;
const HOURS: u64 = (1 << 24) - 1;
const MONTHS: u16 = 0b1_1111_1111_1110;
const DAYS: u32 = u32::MAX - 1;

/// Largest number of times of day that a sentence lists.
const TIMES_MAX: usize = 6;

pub(super) fn describe(fields: &Fields, happens: bool) -> String {
    let times = times_of_day(fields);
    let when = match &times {
        Some(times) => format!("at {}", join(times.clone(), "and")),
        None => units(fields),
    };
    let days = match day_words(fields) {
        None if times.is_some() && fields.months == MONTHS => Some("every day".to_owned()),
        days => days,
    };
    let months = (fields.months != MONTHS)
        .then(|| format!("in {}", list(fields.months.into(), "and", month)));
    let never = (!happens).then(|| "which no calendar has, so it never runs".to_owned());
    let parts = [Some(when), days, months, never];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Returns what happens to these times when the clocks change.
pub(super) fn clock_change_note(fields: &Fields) -> &'static str {
    let times_a_day =
        fields.seconds.count_ones() * fields.minutes.count_ones() * fields.hours.count_ones();
    match (fields.interval_like, times_a_day, day_words(fields)) {
        (true, ..) => "also in the repeated hour when the clocks go back",
        (false, 1, None) => "once a day, also when the clocks change",
        (false, 1, Some(_)) => "once on such a day, also when the clocks change",
        (false, ..) => "each of these times once, also when the clocks change",
    }
}

/// Returns the times such as `09:30`, or `None` when there are too many to list.
fn times_of_day(fields: &Fields) -> Option<Vec<String>> {
    let seconds = values(fields.seconds);
    let minutes = values(fields.minutes);
    let hours = values(fields.hours.into());
    if seconds.len() * minutes.len() * hours.len() > TIMES_MAX {
        return None;
    }
    let mut times = Vec::new();
    for hour in hours {
        for minute in &minutes {
            times.extend(seconds.iter().map(|second| match fields.seconds {
                1 => format!("{hour:02}:{minute:02}"),
                _ => format!("{hour:02}:{minute:02}:{second:02}"),
            }));
        }
    }
    Some(times)
}

/// Returns seconds of minutes of hours, without the parts that are obvious.
fn units(fields: &Fields) -> String {
    let units = [
        ("second", fields.seconds, SIXTY),
        ("minute", fields.minutes, SIXTY),
        ("hour", fields.hours.into(), HOURS),
    ];
    // Seconds that are only 0 are not mentioned.
    let shown = if fields.seconds == 1 { &units[1..] } else { &units[..] };
    let mut words = String::new();
    let mut flowing = false;
    for (unit, bits, full) in shown.iter().copied() {
        let step = step_of(bits, full);
        let phrase = match (words.is_empty(), bits == full, step) {
            (true, true, _) => format!("every {unit}"),
            (true, false, Some(step)) => format!("every {step} {unit}s"),
            (true, false, None) => format!("at {}", counted(unit, bits)),
            // "every minute of every hour" is just "every minute".
            (false, true, _) if flowing => continue,
            (false, true, _) => format!(" of every {unit}"),
            (false, false, Some(step)) => format!(" of every {} {unit}", ordinal(step)),
            (false, false, None) => format!(" of {}", counted(unit, bits)),
        };
        words += &phrase;
        flowing = bits == full || step.is_some();
    }
    words
}

/// Returns `minute 5`, `minutes 0 and 30`.
fn counted(unit: &str, bits: u64) -> String {
    let plural = if bits.is_power_of_two() { "" } else { "s" };
    format!("{unit}{plural} {}", list(bits, "and", |value| value.to_string()))
}

/// Returns the step of values that divide the unit evenly from 0 on.
fn step_of(bits: u64, full: u64) -> Option<u8> {
    let size = u8::try_from(full.count_ones()).ok()?;
    let step = size.checked_div(u8::try_from(bits.count_ones()).ok()?)?;
    let even = (0..size).step_by(usize::from(step.max(1))).fold(0, |set, value| set | (1 << value));
    (step > 1 && bits == even && bits != 1).then_some(step)
}

fn day_words(fields: &Fields) -> Option<String> {
    let every_day = fields.days == Days::Set(DAYS);
    match (every_day, fields.weekdays) {
        (true, Weekdays::Set(WEEK)) => None,
        (false, Weekdays::Set(WEEK)) => Some(format!("on {}", month_days(fields.days))),
        (true, Weekdays::Set(days)) => Some(format!("on {}", list(days.into(), "and", weekday))),
        (true, weekdays) => Some(format!("on {}", one_weekday(weekdays))),
        (false, weekdays) => {
            Some(format!("on {}, only if it is {}", month_days(fields.days), one_weekday(weekdays)))
        }
    }
}

fn month_days(days: Days) -> String {
    match days {
        Days::Set(days) => format!("{} of the month", counted("day", days.into())),
        Days::Nearest(day) => {
            format!("the workday (Monday to Friday) nearest to day {day} of the month")
        }
        Days::Last { before, nearest } => {
            let day = match before {
                0 => "the last day of the month".to_owned(),
                1 => "the day before the last day of the month".to_owned(),
                before => format!("the day {before} days before the last day of the month"),
            };
            match (nearest, before) {
                (false, _) => day,
                (true, 0) => "the last workday (Monday to Friday) of the month".to_owned(),
                (true, _) => format!("the workday (Monday to Friday) nearest to {day}"),
            }
        }
    }
}

fn one_weekday(weekdays: Weekdays) -> String {
    match weekdays {
        Weekdays::Set(days) => format!("a {}", list(days.into(), "or", weekday)),
        Weekdays::Nth { weekday: day, nth: k } => {
            format!("the {} {} of the month", nth(k), weekday(day))
        }
        Weekdays::Last(day) => format!("the last {} of the month", weekday(day)),
    }
}
