//! A length of time as people write it.

use std::fmt;
use std::time::Duration;

use punctual::schedule::{format_duration, parse_duration};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A length above zero, such as `30s` or `1h 30m`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Length(Duration);

impl Length {
    /// So many seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// So many hours.
    pub const fn hours(hours: u64) -> Self {
        Self(Duration::from_secs(hours * 60 * 60))
    }

    /// The length.
    pub fn get(self) -> Duration {
        self.0
    }
}

impl fmt::Debug for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_duration(self.0))
    }
}

impl Serialize for Length {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&format_duration(self.0))
    }
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(Reader)
    }
}

struct Reader;

impl serde::de::Visitor<'_> for Reader {
    type Value = Length;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Length, E> {
        parse_duration(text).map(Length).map_err(E::custom)
    }
}
