//! Durations as people write them: `5m`, `1h 30m`, `2 days`, `PT5M`.
//!
//! Days are 24 hours and weeks seven of them; months and years have no fixed
//! length and are refused, as are zero, negative and boundless durations.

use std::time::Duration;

use jiff::{SignedDuration, Span, SpanRelativeTo};

use super::error::ScheduleError;

const TEXT_LENGTH_MAX: usize = 100;

/// Reads a duration above zero in jiff's friendly or in ISO 8601 spelling.
pub fn parse_duration(text: &str) -> Result<Duration, ScheduleError> {
    let refuse = |problem: &str| {
        let text = text.chars().take(TEXT_LENGTH_MAX).collect();
        let problem = problem.to_owned();
        Err(ScheduleError::Duration { text, problem })
    };
    if text.len() > TEXT_LENGTH_MAX {
        return refuse("is too long, write one such as 90s, 5m or 1h 30m");
    }
    let Ok(span) = text.trim().parse::<Span>() else {
        return match text.trim().parse::<f64>() {
            Ok(_) => refuse("has no unit, write one such as 90s, 5m or 1h 30m"),
            Err(_) => refuse("cannot be read or is too large, write one such as 90s, 5m or 1h 30m"),
        };
    };
    if span.get_years() != 0 || span.get_months() != 0 {
        return refuse("has months or years, which have no fixed length; use days, or a cron text");
    }
    let Ok(length) = span.to_duration(SpanRelativeTo::days_are_24_hours()) else {
        return refuse("is too large, use at most 1000 years");
    };
    match Duration::try_from(length) {
        Ok(length) if length.is_zero() => refuse("is zero, use 1ms or more"),
        Ok(length) => Ok(length),
        Err(_) => refuse("is negative, use 1ms or more"),
    }
}

/// A duration in the shortest spelling that [`parse_duration`] reads.
pub fn format_duration(length: Duration) -> String {
    match SignedDuration::try_from(length) {
        Ok(length) => format!("{length:#}"),
        Err(_) => format!("{}s", length.as_secs()),
    }
}
