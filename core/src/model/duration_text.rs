//! Lengths of time in stored records, as people write them: `30s`, `1h 30m`. For serde's `with`.

use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::schedule::{format_duration, parse_duration};

/// Something with lengths of time in it that is stored as text.
pub(crate) trait Written: Sized {
    /// What is stored.
    type Text: Serialize + for<'de> Deserialize<'de>;

    fn write(&self) -> Self::Text;
    fn read(text: Self::Text) -> Result<Self, String>;
}

const ZERO: &str = "0s";

impl Written for Duration {
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

impl Written for Option<Duration> {
    type Text = Option<String>;

    fn write(&self) -> Option<String> {
        self.as_ref().map(Written::write)
    }

    fn read(text: Option<String>) -> Result<Self, String> {
        text.map(Written::read).transpose()
    }
}

impl Written for Vec<Duration> {
    type Text = Vec<String>;

    fn write(&self) -> Vec<String> {
        self.iter().map(Written::write).collect()
    }

    fn read(texts: Vec<String>) -> Result<Self, String> {
        texts.into_iter().map(Written::read).collect()
    }
}

const NONE: &str = "none";

/// A length that may be overridden, also by none at all.
impl Written for Option<Option<Duration>> {
    type Text = Option<String>;

    fn write(&self) -> Option<String> {
        self.as_ref().map(|length| length.as_ref().map_or(NONE.to_owned(), Written::write))
    }

    fn read(text: Option<String>) -> Result<Self, String> {
        match text.as_deref() {
            None => Ok(None),
            Some(NONE) => Ok(Some(None)),
            Some(_) => Written::read(text).map(Some),
        }
    }
}

pub(crate) fn serialize<T: Written, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    value.write().serialize(to)
}

pub(crate) fn deserialize<'de, T: Written, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    T::read(T::Text::deserialize(from)?).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goes_there_and_back<T: Written + PartialEq + std::fmt::Debug>(value: T, json: &str) {
        let text = serde_json::to_string(&value.write()).unwrap();
        assert_eq!(text, json);
        assert_eq!(T::read(serde_json::from_str(&text).unwrap()).unwrap(), value);
    }

    #[test]
    fn lengths_are_stored_as_people_write_them() {
        goes_there_and_back(Duration::from_secs(5_400), r#""1h 30m""#);
        goes_there_and_back(Duration::ZERO, r#""0s""#);
        goes_there_and_back(Duration::new(1, 1), r#""1s 1ns""#);
        goes_there_and_back(Some(Duration::from_millis(500)), r#""500ms""#);
        goes_there_and_back(None::<Duration>, "null");
        goes_there_and_back(vec![Duration::from_secs(1), Duration::ZERO], r#"["1s","0s"]"#);
    }

    #[test]
    fn overridden_by_none_is_not_the_same_as_not_overridden() {
        goes_there_and_back(None::<Option<Duration>>, "null");
        goes_there_and_back(Some(None::<Duration>), r#""none""#);
        goes_there_and_back(Some(Some(Duration::from_secs(9))), r#""9s""#);
    }
}
