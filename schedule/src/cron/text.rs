//! Canonical text of an expression.

use std::fmt::{self, Write};

use super::field::{CronField, Days, Fields, WEEK, Weekdays};

pub(super) fn write(fields: &Fields, out: &mut impl Write) -> fmt::Result {
    if fields.seconds != 1 {
        write_set(CronField::Second, fields.seconds, out)?;
        out.write_char(' ')?;
    }
    write_set(CronField::Minute, fields.minutes, out)?;
    out.write_char(' ')?;
    write_set(CronField::Hour, fields.hours.into(), out)?;
    out.write_char(' ')?;
    write_days(fields.days, out)?;
    out.write_char(' ')?;
    write_set(CronField::Month, fields.months.into(), out)?;
    out.write_char(' ')?;
    write_weekdays(fields.weekdays, out)
}

fn write_days(days: Days, out: &mut impl Write) -> fmt::Result {
    match days {
        Days::Set(days) => write_set(CronField::Day, days.into(), out),
        Days::Nearest(day) => write!(out, "{day}W"),
        Days::Last { before, nearest } => {
            out.write_char('L')?;
            if before > 0 {
                write!(out, "-{before}")?;
            }
            if nearest { out.write_char('W') } else { Ok(()) }
        }
    }
}

fn write_weekdays(weekdays: Weekdays, out: &mut impl Write) -> fmt::Result {
    match weekdays {
        Weekdays::Set(WEEK) => out.write_char('*'),
        Weekdays::Set(days) => write_set(CronField::Weekday, days.into(), out),
        Weekdays::Nth { weekday, nth } => write!(out, "{weekday}#{nth}"),
        Weekdays::Last(weekday) => write!(out, "{weekday}L"),
    }
}

fn write_set(field: CronField, bits: u64, out: &mut impl Write) -> fmt::Result {
    let values = field.low()..=field.high();
    if values.clone().all(|value| bits & (1 << value) != 0) {
        return out.write_char('*');
    }
    let mut comma = "";
    for value in values.filter(|value| bits & (1 << value) != 0) {
        write!(out, "{comma}{value}")?;
        comma = ",";
    }
    Ok(())
}
