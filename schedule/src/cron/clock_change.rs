//! Clock changes: from wall clock times to instants.
//!
//! The occurrences of an expression in a zone are one set of instants, and both
//! directions walk exactly that set: every instant whose wall clock time
//! matches (in the second pass of a fold only when interval-like), and the end
//! of every gap in which a matching time was skipped. Only changes of offset
//! count; a transition that only renames the zone is ignored.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

use super::field::Fields;
use crate::zone::{ClockChange, Reading, Zone};

/// Returns the first occurrence strictly after an instant.
pub(super) fn next(fields: &Fields, after: Timestamp, zone: &Zone) -> Option<Timestamp> {
    let start = whole_second(after, 0)?;
    let offset = zone.offset(start);
    let from = offset.to_datetime(whole_second(after, 1)?);
    match zone.read(offset.to_datetime(start)) {
        Reading::Twice(fold) => next_in_fold(fields, &fold, offset == fold.before, from)
            .or_else(|| forward(fields, fold.end(), zone)),
        _ => forward(fields, from, zone),
    }
}

/// Returns the last occurrence strictly before an instant.
pub(super) fn prev(fields: &Fields, before: Timestamp, zone: &Zone) -> Option<Timestamp> {
    let start = match before.subsec_nanosecond() {
        0 => whole_second(before, -1)?,
        _ => whole_second(before, 0)?,
    };
    let offset = zone.offset(start);
    let until = offset.to_datetime(start);
    match zone.read(until) {
        Reading::Twice(fold) => prev_in_fold(fields, &fold, offset == fold.before, until)
            .or_else(|| backward(fields, fold.last_before(), zone)),
        _ => backward(fields, until, zone),
    }
}

/// Returns whether the wall clock reads a time of the expression at an instant.
pub(super) fn matches(fields: &Fields, at: Timestamp, zone: &Zone) -> bool {
    let offset = zone.offset(at);
    let wall = offset.to_datetime(at);
    let over = || match zone.read(wall) {
        Reading::Twice(fold) => !fields.interval_like && offset != fold.before,
        _ => false,
    };
    at.subsec_nanosecond() == 0 && fields.match_wall(wall) && !over()
}

/// Searches the remainder of a fold: the rest of the first pass, then the second pass for
/// interval-like expressions.
fn next_in_fold(
    fields: &Fields,
    fold: &ClockChange,
    in_first_pass: bool,
    from: DateTime,
) -> Option<Timestamp> {
    let inside = |from| fields.wall_from(from).filter(|wall| *wall < fold.end());
    let (first, second) = if in_first_pass { (inside(from), fold.start()) } else { (None, from) };
    match first {
        Some(wall) => instant(wall, fold.before),
        None if fields.interval_like => instant(inside(second)?, fold.after),
        None => None,
    }
}

/// Searches a fold backwards.
fn prev_in_fold(
    fields: &Fields,
    fold: &ClockChange,
    in_first_pass: bool,
    until: DateTime,
) -> Option<Timestamp> {
    let inside = |until| fields.wall_until(until).filter(|wall| *wall >= fold.start());
    let (second, first) = match in_first_pass {
        true => (None, until),
        false if fields.interval_like => (inside(until), fold.last()),
        false => (None, fold.last()),
    };
    match second {
        Some(wall) => instant(wall, fold.after),
        None => instant(inside(first)?, fold.before),
    }
}

/// Returns the first occurrence from a wall clock time that is in no fold.
fn forward(fields: &Fields, from: DateTime, zone: &Zone) -> Option<Timestamp> {
    let wall = fields.wall_from(from)?;
    match zone.read(wall) {
        Reading::Once(offset) => instant(wall, offset),
        Reading::Skipped(gap) => Some(gap.at),
        Reading::Twice(fold) => instant(wall, fold.before),
    }
}

/// Returns the last occurrence up to a wall clock time that is in no fold.
fn backward(fields: &Fields, until: DateTime, zone: &Zone) -> Option<Timestamp> {
    let wall = fields.wall_until(until)?;
    match zone.read(wall) {
        Reading::Once(offset) => instant(wall, offset),
        Reading::Skipped(gap) => Some(gap.at),
        Reading::Twice(fold) if fields.interval_like => instant(wall, fold.after),
        Reading::Twice(fold) => instant(wall, fold.before),
    }
}

/// Returns the instant, unless it is past the end of time.
fn instant(wall: DateTime, offset: Offset) -> Option<Timestamp> {
    offset.to_timestamp(wall).ok()
}

/// Returns the whole second at or before an instant, moved by some seconds.
fn whole_second(at: Timestamp, moved: i64) -> Option<Timestamp> {
    let second = match at.subsec_nanosecond() {
        ..0 => at.as_second() - 1,
        _ => at.as_second(),
    };
    Timestamp::from_second(second + moved).ok()
}
