//! Duration text: durations in stored records, as people write them: `30s`, `1h 30m`. For serde's `with`.

use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::schedule::{format_duration, parse_duration};

/// Value with durations that is stored as text.
pub(crate) trait DurationText: Sized {
    /// Stored form.
    type Text: Serialize + for<'de> Deserialize<'de>;

    fn write(&self) -> Self::Text;
    fn read(text: Self::Text) -> Result<Self, String>;
}

const ZERO: &str = "0s";

impl DurationText for Duration {
    type Text = String;

    fn write(&self) -> String {
        if self.is_zero() { ZERO.to_owned() } else { format_duration(*self) }
    }

    fn read(text: String) -> Result<Self, String> {
        if text == ZERO {
            return Ok(Self::ZERO);
        }
        parse_duration(&text).map_err(|error| error.to_string())
    }
}

impl DurationText for Option<Duration> {
    type Text = Option<String>;

    fn write(&self) -> Option<String> {
        self.as_ref().map(DurationText::write)
    }

    fn read(text: Option<String>) -> Result<Self, String> {
        text.map(DurationText::read).transpose()
    }
}

impl DurationText for Vec<Duration> {
    type Text = Vec<String>;

    fn write(&self) -> Vec<String> {
        self.iter().map(DurationText::write).collect()
    }

    fn read(texts: Vec<String>) -> Result<Self, String> {
        texts.into_iter().map(DurationText::read).collect()
    }
}

const NONE: &str = "none";

/// Duration that may be overridden, also by none.
impl DurationText for Option<Option<Duration>> {
    type Text = Option<String>;

    fn write(&self) -> Option<String> {
        self.as_ref().map(|duration| duration.as_ref().map_or(NONE.to_owned(), DurationText::write))
    }

    fn read(text: Option<String>) -> Result<Self, String> {
        match text.as_deref() {
            None => Ok(None),
            Some(NONE) => Ok(Some(None)),
            Some(_) => DurationText::read(text).map(Some),
        }
    }
}

pub(crate) fn serialize<T: DurationText, S: Serializer>(
    value: &T,
    to: S,
) -> Result<S::Ok, S::Error> {
    value.write().serialize(to)
}

pub(crate) fn deserialize<'de, T: DurationText, D: Deserializer<'de>>(
    from: D,
) -> Result<T, D::Error> {
    T::read(T::Text::deserialize(from)?).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip<T: DurationText + PartialEq + std::fmt::Debug>(value: T, json: &str) {
        let text = serde_json::to_string(&value.write()).unwrap();
        assert_eq!(text, json);
        assert_eq!(T::read(serde_json::from_str(&text).unwrap()).unwrap(), value);
    }

    #[test]
    fn durations_are_stored_as_people_write_them() {
        round_trip(Duration::from_secs(5_400), r#""1h 30m""#);
        round_trip(Duration::ZERO, r#""0s""#);
        round_trip(Duration::new(1, 1), r#""1s 1ns""#);
        round_trip(Some(Duration::from_millis(500)), r#""500ms""#);
        round_trip(None::<Duration>, "null");
        round_trip(vec![Duration::from_secs(1), Duration::ZERO], r#"["1s","0s"]"#);
    }

    #[test]
    fn overridden_by_none_is_not_the_same_as_not_overridden() {
        round_trip(None::<Option<Duration>>, "null");
        round_trip(Some(None::<Duration>), r#""none""#);
        round_trip(Some(Some(Duration::from_secs(9))), r#""9s""#);
    }
}
