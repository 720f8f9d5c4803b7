//! Durations of the configuration, as strings such as `30s`.

use std::fmt;
use std::time::Duration;

use punctual::schedule::{format_duration, parse_duration};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A duration above zero, such as `30s` or `1h 30m`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ConfigDuration(Duration);

impl ConfigDuration {
    /// Returns a duration of seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// Returns a duration of hours.
    pub const fn hours(hours: u64) -> Self {
        Self(Duration::from_secs(hours * 60 * 60))
    }

    /// Returns the duration.
    pub fn get(self) -> Duration {
        self.0
    }
}

impl fmt::Debug for ConfigDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_duration(self.0))
    }
}

impl Serialize for ConfigDuration {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&format_duration(self.0))
    }
}

impl<'de> Deserialize<'de> for ConfigDuration {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(Reader)
    }
}

struct Reader;

impl serde::de::Visitor<'_> for Reader {
    type Value = ConfigDuration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ConfigDuration, E> {
        parse_duration(text).map(ConfigDuration).map_err(E::custom)
    }
}
