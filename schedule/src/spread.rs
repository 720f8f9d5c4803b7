//! [`Spread`]: a delay that keeps many runs from starting in the same second.
//!
//! The delay is a stable hash, so it can be asserted and survives restarts. The
//! planned time stays the identity of the run; only its start moves, and never
//! as far as the next occurrence.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::duration::{format_duration, parse_duration};
use super::error::ScheduleError;
use super::hash::stable_hash;

/// The spread of the starts of runs: `none`, `stable 30s`, `random 10%`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Spread {
    /// No delay: every run starts at its planned time.
    #[default]
    None,
    /// The same delay for all runs of a schedule, drawn from its key.
    Stable(SpreadLimit),
    /// A delay of its own for every run, drawn from key and planned time.
    Random(SpreadLimit),
}

/// The upper limit of a spread; delays stay below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpreadLimit {
    /// A fixed duration.
    Duration(Duration),
    /// A share of the time to the next occurrence, 1 to 100.
    Percent(u8),
}

impl Spread {
    /// Returns the delay of the run planned for `nominal`; `next` is the occurrence
    /// after it, if there is one. Whole milliseconds.
    pub fn offset(&self, key: &str, nominal: Timestamp, next: Option<Timestamp>) -> Duration {
        let planned = nominal.as_nanosecond().to_le_bytes();
        let (reach, hash) = match self {
            Spread::None => return Duration::ZERO,
            Spread::Stable(reach) => (reach, stable_hash(&[b"stable", key.as_bytes()])),
            Spread::Random(reach) => (reach, stable_hash(&[b"random", key.as_bytes(), &planned])),
        };
        let room = next
            .map(|next| Duration::try_from(next.duration_since(nominal)).unwrap_or(Duration::ZERO));
        let duration = match (reach, room) {
            (SpreadLimit::Duration(duration), Some(room)) => (*duration).min(room),
            (SpreadLimit::Duration(duration), None) => *duration,
            (SpreadLimit::Percent(percent), Some(room)) => room / 100 * u32::from(*percent),
            (SpreadLimit::Percent(_), None) => Duration::ZERO,
        };
        match u64::try_from(duration.as_millis()) {
            Ok(0) => Duration::ZERO,
            Ok(milliseconds) => Duration::from_millis(hash % milliseconds),
            Err(_) => Duration::from_millis(hash),
        }
    }
}

impl FromStr for Spread {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Spread, ScheduleError> {
        match text.trim().split_once(' ') {
            None if text.trim() == "none" => Ok(Spread::None),
            Some(("stable", reach)) => Ok(Spread::Stable(reach.parse()?)),
            Some(("random", reach)) => Ok(Spread::Random(reach.parse()?)),
            _ => Err(refuse(
                text,
                "use none, stable or random with a duration or a percentage, such as stable 30s",
            )),
        }
    }
}

impl FromStr for SpreadLimit {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<SpreadLimit, ScheduleError> {
        match text.trim().strip_suffix('%').map(str::parse) {
            Some(Ok(percent @ 1..=100)) => Ok(SpreadLimit::Percent(percent)),
            Some(_) => Err(refuse(text, "a percentage must be between 1% and 100%")),
            None => Ok(SpreadLimit::Duration(parse_duration(text)?)),
        }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Spread::None => out.write_str("none"),
            Spread::Stable(reach) => write!(out, "stable {reach}"),
            Spread::Random(reach) => write!(out, "random {reach}"),
        }
    }
}

impl fmt::Display for SpreadLimit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpreadLimit::Duration(duration) => out.write_str(&format_duration(*duration)),
            SpreadLimit::Percent(percent) => write!(out, "{percent}%"),
        }
    }
}

impl TryFrom<String> for Spread {
    type Error = ScheduleError;

    fn try_from(text: String) -> Result<Spread, ScheduleError> {
        text.parse()
    }
}

impl From<Spread> for String {
    fn from(spread: Spread) -> String {
        spread.to_string()
    }
}

fn refuse(text: &str, problem: &str) -> ScheduleError {
    ScheduleError::Part {
        part: "spread",
        text: text.chars().take(60).collect(),
        problem: problem.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MINUTE: SpreadLimit = SpreadLimit::Duration(Duration::from_secs(60));

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn never_changes() {
        let nominal = at(1_767_225_600);
        assert_eq!(Spread::None.offset("job", nominal, None), Duration::ZERO);
        assert_eq!(
            Spread::Stable(MINUTE).offset("job", nominal, None),
            Duration::from_millis(40_992)
        );
        assert_eq!(
            Spread::Random(MINUTE).offset("job", nominal, None),
            Duration::from_millis(30_581)
        );
        // Stable is the same for every run, random is not.
        let later = at(1_767_312_000);
        assert_eq!(
            Spread::Stable(MINUTE).offset("job", later, None),
            Duration::from_millis(40_992)
        );
        assert_eq!(
            Spread::Random(MINUTE).offset("job", later, None),
            Duration::from_millis(35_642)
        );
    }

    #[test]
    fn reads_what_it_writes() {
        for text in ["none", "stable 30s", "random 1h 30m", "stable 10%", "random 100%"] {
            let spread: Spread = text.parse().unwrap();
            assert_eq!(spread.to_string(), text);
            let json = serde_json::to_string(&spread).unwrap();
            assert_eq!(json, format!("{text:?}"));
            assert_eq!(serde_json::from_str::<Spread>(&json).unwrap(), spread);
        }
        for text in [
            "",
            "stable",
            "stable 0s",
            "random -1s",
            "random 0%",
            "random 101%",
            "often 3s",
            "stable x%",
        ] {
            assert!(text.parse::<Spread>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn never_reaches_the_next_occurrence(key in any::<u32>(), duration in 1_u64..100_000, percent in 1_u8..=100, period in 0_i64..100_000) {
            let key = key.to_string();
            let (nominal, next) = (at(1_000_000), at(1_000_000 + period));
            for reach in [SpreadLimit::Duration(Duration::from_millis(duration)), SpreadLimit::Percent(percent)] {
                for spread in [Spread::Stable(reach), Spread::Random(reach)] {
                    let offset = spread.offset(&key, nominal, Some(next));
                    prop_assert!(offset.is_zero() || nominal + offset < next);
                    if let SpreadLimit::Duration(duration) = reach {
                        prop_assert!(offset < duration);
                        prop_assert!(spread.offset(&key, nominal, None) < duration);
                    }
                    prop_assert_eq!(offset, spread.offset(&key, nominal, Some(next)));
                }
            }
            prop_assert_eq!(Spread::Random(MINUTE).offset(&key, next, Some(nominal)), Duration::ZERO);
        }
    }
}
