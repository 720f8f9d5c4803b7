//! Durations as text: `5m`, `1h 30m`, `2 days`, `PT5M`.
//!
//! Days are 24 hours and weeks seven of them; months and years have no fixed
//! duration and are refused, as are zero, negative and boundless durations.

use std::time::Duration;

use jiff::{SignedDuration, Span, SpanRelativeTo};

use super::error::ScheduleError;

const TEXT_LEN_MAX: usize = 100;

/// Parses a duration above zero in jiff's friendly or in ISO 8601 spelling.
pub fn parse_duration(text: &str) -> Result<Duration, ScheduleError> {
    let refuse = |problem: &str| {
        let text = text.chars().take(TEXT_LEN_MAX).collect();
        let problem = problem.to_owned();
        Err(ScheduleError::Duration { text, problem })
    };
    if text.len() > TEXT_LEN_MAX {
        return refuse("is too long, write one such as 90s, 5m or 1h 30m");
    }
    let Ok(span) = text.trim().parse::<Span>() else {
        return match text.trim().parse::<f64>() {
            Ok(_) => refuse("has no unit, write one such as 90s, 5m or 1h 30m"),
            Err(_) => refuse("cannot be read or is too large, write one such as 90s, 5m or 1h 30m"),
        };
    };
    if span.get_years() != 0 || span.get_months() != 0 {
        return refuse(
            "has months or years, which have no fixed duration; use days, or a cron text",
        );
    }
    let Ok(duration) = span.to_duration(SpanRelativeTo::days_are_24_hours()) else {
        return refuse("is too large, use at most 1000 years");
    };
    match Duration::try_from(duration) {
        Ok(duration) if duration.is_zero() => refuse("is zero, use 1ms or more"),
        Ok(duration) => Ok(duration),
        Err(_) => refuse("is negative, use 1ms or more"),
    }
}

/// Formats a duration in the shortest spelling that [`parse_duration`] reads.
pub fn format_duration(duration: Duration) -> String {
    match SignedDuration::try_from(duration) {
        Ok(duration) => format!("{duration:#}"),
        Err(_) => format!("{}s", duration.as_secs()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_common_spellings() {
        for (text, seconds) in [
            ("5m", 300),
            ("1h 30m", 5_400),
            ("1h30m", 5_400),
            ("90s", 90),
            ("PT5M", 300),
            ("P1DT12H", 129_600),
            ("36h", 129_600),
            ("1d", 86_400),
            ("2 weeks", 1_209_600),
            ("5 minutes", 300),
            (" 1 hour, 5 seconds ", 3_605),
        ] {
            assert_eq!(parse_duration(text).unwrap(), Duration::from_secs(seconds), "{text}");
        }
        assert_eq!(parse_duration("250ms").unwrap(), Duration::from_millis(250));
    }

    #[test]
    fn names_the_value_and_the_way_out() {
        let endless = "9".repeat(5_000) + "h";
        for (text, words) in [
            ("0s", "is zero, use 1ms or more"),
            ("PT0S", "is zero, use 1ms or more"),
            ("-5m", "is negative, use 1ms or more"),
            ("5m ago", "is negative"),
            ("5", "has no unit, write one such as 90s, 5m or 1h 30m"),
            ("", "cannot be read"),
            ("soon", "cannot be read"),
            ("99999999999999999999h", "cannot be read or is too large"),
            ("1 month", "months or years"),
            ("P1Y", "months or years"),
            (endless.as_str(), "is too long"),
        ] {
            let error = parse_duration(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
            assert!(error.len() < 250);
        }
    }

    proptest! {
        #[test]
        fn writes_what_it_reads(nanoseconds in 1_u64..u64::MAX / 64) {
            let duration = Duration::from_nanos(nanoseconds);
            prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }

        #[test]
        fn survives_arbitrary_text(text in proptest::collection::vec(any::<char>(), 0..40)) {
            let _ = parse_duration(&text.into_iter().collect::<String>());
        }
    }
}
