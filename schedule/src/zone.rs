//! [`Zone`]: an IANA time zone by name, and how its wall clock reads.
//!
//! The zone data is compiled in, so every host has the same rules. Names are
//! checked when a zone is created; offsets and POSIX texts are refused, because a
//! schedule must follow the rules of a place.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use serde::{Deserialize, Serialize};

use super::error::ScheduleError;
use super::near_names::near_names;

/// A time zone of the IANA database. Cheap to clone.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Zone(TimeZone);

/// The longest accepted name, in bytes; the database stays below half of it.
const NAME_LEN_MAX: usize = 100;

impl Zone {
    /// Returns coordinated universal time, the default.
    pub fn utc() -> Zone {
        Zone(TimeZone::UTC)
    }

    /// Looks a zone up by its IANA name, in any case.
    pub fn named(name: &str) -> Result<Zone, ScheduleError> {
        if name.len() > NAME_LEN_MAX {
            let start: String = name.chars().take(20).collect();
            return Err(unknown(&format!("{start}…"), Vec::new()));
        }
        match TimeZone::get(name) {
            Ok(zone) if zone.iana_name().is_some() && !zone.is_unknown() => Ok(Zone(zone)),
            _ => Err(unknown(name, near_names(name))),
        }
    }

    /// Returns the name in the spelling of the database.
    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// Returns the offset from UTC at an instant.
    pub fn offset(&self, at: Timestamp) -> Offset {
        self.0.to_offset(at)
    }

    /// Returns the wall clock time at an instant.
    pub fn wall(&self, at: Timestamp) -> DateTime {
        self.0.to_datetime(at)
    }

    /// Returns whether the offset ever changes; false for UTC.
    pub fn changes_clocks(&self) -> bool {
        self.0.to_fixed_offset().is_err()
    }

    /// Returns the underlying zone, for formatting.
    pub fn time_zone(&self) -> &TimeZone {
        &self.0
    }

    /// Returns how often the wall clock shows a time.
    pub(super) fn read(&self, wall: DateTime) -> Reading {
        match self.0.to_ambiguous_timestamp(wall).offset() {
            AmbiguousOffset::Unambiguous { offset } => Reading::Once(offset),
            AmbiguousOffset::Gap { before, after } => {
                Reading::Skipped(self.change(wall, before, after))
            }
            AmbiguousOffset::Fold { before, after } => {
                Reading::Twice(self.change(wall, before, after))
            }
        }
    }

    /// Returns the first transition after an instant, even if only of the zone's name.
    pub(super) fn transition_after(&self, at: Timestamp) -> Option<Timestamp> {
        self.0.following(at).next().map(|transition| transition.timestamp())
    }

    /// Returns the last transition at or before an instant, even if only of the zone's name.
    pub(super) fn transition_until(&self, at: Timestamp) -> Option<Timestamp> {
        let next = Timestamp::from_nanosecond(at.as_nanosecond() + 1).unwrap_or(at);
        self.0.preceding(next).next().map(|transition| transition.timestamp())
    }

    /// Finds the change that skips or repeats a wall clock time, by halving the
    /// span in which the offset must have changed. Transitions that keep the
    /// offset cannot disturb it.
    fn change(&self, wall: DateTime, before: Offset, after: Offset) -> ClockChange {
        let reading =
            |offset: Offset| offset.to_timestamp(wall).unwrap_or(Timestamp::MAX).as_second();
        let mut low = reading(before.max(after));
        let mut high = reading(before.min(after));
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.offset(second(middle)) == after {
                high = middle;
            } else {
                low = middle;
            }
        }
        ClockChange { at: second(high), before, after }
    }
}

/// How often the wall clock shows a time.
pub(super) enum Reading {
    /// Once, at this offset.
    Once(Offset),
    /// Never: a gap.
    Skipped(ClockChange),
    /// In two passes: a fold.
    Twice(ClockChange),
}

/// A change of the offset from UTC.
pub(super) struct ClockChange {
    /// The first instant with the new offset.
    pub(super) at: Timestamp,
    pub(super) before: Offset,
    pub(super) after: Offset,
}

impl ClockChange {
    /// Returns a fold's first repeated wall clock time.
    pub(super) fn start(&self) -> DateTime {
        self.after.to_datetime(self.at)
    }

    /// Returns a fold's last repeated second.
    pub(super) fn last(&self) -> DateTime {
        self.before.to_datetime(second(self.at.as_second() - 1))
    }

    /// Returns the last second before a fold's first pass.
    pub(super) fn last_before(&self) -> DateTime {
        self.after.to_datetime(second(self.at.as_second() - 1))
    }

    /// Returns the first wall clock time after a fold.
    pub(super) fn end(&self) -> DateTime {
        self.before.to_datetime(self.at)
    }
}

fn second(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap_or(Timestamp::MAX)
}

fn unknown(name: &str, near: Vec<String>) -> ScheduleError {
    let hint = match near.as_slice() {
        [] => "use an IANA name such as Europe/Berlin or UTC".to_owned(),
        near => format!("did you mean {}?", near.join(" or ")),
    };
    ScheduleError::Zone { name: name.to_owned(), hint }
}

impl Default for Zone {
    fn default() -> Zone {
        Zone::utc()
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Zone({})", self.name())
    }
}

impl FromStr for Zone {
    type Err = ScheduleError;

    fn from_str(name: &str) -> Result<Zone, ScheduleError> {
        Zone::named(name)
    }
}

impl TryFrom<String> for Zone {
    type Error = ScheduleError;

    fn try_from(name: String) -> Result<Zone, ScheduleError> {
        Zone::named(&name)
    }
}

impl From<Zone> for String {
    fn from(zone: Zone) -> String {
        zone.name().to_owned()
    }
}

impl PartialEq for Zone {
    fn eq(&self, other: &Zone) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Zone {}

impl Hash for Zone {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: U-5
    #[test]
    fn accepts_iana_names_only() {
        assert_eq!(Zone::default().name(), "UTC");
        assert_eq!(Zone::named("europe/berlin").unwrap().name(), "Europe/Berlin");
        for name in ["UTC", "Etc/UTC", "Asia/Kathmandu", "America/Argentina/Buenos_Aires"] {
            assert_eq!(Zone::named(name).unwrap().name(), name);
        }
        let endless = "x".repeat(1_000_000);
        for name in [
            "",
            " ",
            "+02:00",
            "CET-1CEST",
            "Mars/Olympus",
            "Local",
            "Etc/Unknown",
            "../etc/passwd",
            "Europe/Berlin\0",
            &endless,
        ] {
            let error = Zone::named(name).unwrap_err().to_string();
            assert!(error.starts_with("there is no time zone"), "{error}");
            assert!(error.len() < 250);
        }
    }

    #[test]
    fn suggests_near_names() {
        for (name, near) in [
            ("Europe/Berln", "did you mean Europe/Berlin?"),
            ("Berlin", "did you mean Europe/Berlin?"),
            ("new york", "did you mean America/New_York?"),
            ("Nowhere", "use an IANA name such as Europe/Berlin or UTC"),
        ] {
            let error = Zone::named(name).unwrap_err().to_string();
            assert!(error.ends_with(near), "{error}");
        }
    }

    #[test]
    fn ignores_transitions_that_keep_the_offset() {
        // On 2011-03-27 Minsk changed its name from EET to EEST and on to +03 with one gap.
        let zone = Zone::named("Europe/Minsk").unwrap();
        let Reading::Skipped(gap) = zone.read("2011-03-27T02:30:00".parse().unwrap()) else {
            panic!("no gap");
        };
        assert_eq!(gap.at, "2011-03-27T00:00:00Z".parse().unwrap());
        let Reading::Once(_) = zone.read("2011-03-27T03:30:00".parse().unwrap()) else {
            panic!("not once");
        };
    }

    #[test]
    fn is_stored_by_name() {
        let zone = Zone::named("Asia/Tokyo").unwrap();
        let json = serde_json::to_string(&zone).unwrap();
        assert_eq!(json, "\"Asia/Tokyo\"");
        assert_eq!(serde_json::from_str::<Zone>(&json).unwrap(), zone);
        assert!(serde_json::from_str::<Zone>("\"Asia/Tokio\"").is_err());
        assert!(!Zone::utc().changes_clocks() && zone.changes_clocks());
    }
}
