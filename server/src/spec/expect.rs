//! Lists of expected HTTP statuses: single ones, ranges and classes.

use std::fmt;

use punctual::{Error, Result};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

/// Largest number of entries of a list.
const ENTRIES_MAX: usize = 50;

/// Statuses: a list of `200`, `"200-299"` and `"2xx"`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(value_type = Vec<StatusEntry>)]
#[serde(into = "Vec<String>")]
pub struct Statuses(Vec<(u16, u16)>);

impl Statuses {
    /// Returns 200 to 299.
    pub fn success() -> Self {
        Self(vec![(200, 299)])
    }

    /// Returns whether a status is in the list.
    pub fn contains(&self, status: u16) -> bool {
        self.0.iter().any(|(first, last)| (*first..=*last).contains(&status))
    }

    fn read(texts: &[String]) -> Result<Self> {
        if texts.is_empty() || texts.len() > ENTRIES_MAX {
            return Err(Error::invalid(format!(
                "{} statuses is out of range, use 1 to {ENTRIES_MAX}",
                texts.len()
            )));
        }
        texts.iter().map(|text| range(text)).collect::<Result<_>>().map(Self)
    }
}

fn range(text: &str) -> Result<(u16, u16)> {
    let refuse = || {
        Error::invalid(format!(
            "{text:?} is not a status; use one such as 204, \"200-299\" or \"2xx\""
        ))
    };
    let text = text.trim();
    let one = |text: &str| text.trim().parse::<u16>().ok();
    let pair = match (text.split_once('-'), text.strip_suffix("xx")) {
        (Some((first, last)), _) => one(first).zip(one(last)),
        (None, Some(class)) => {
            one(class).filter(|class| *class < 6).map(|class| (class * 100, class * 100 + 99))
        }
        (None, None) => one(text).map(|status| (status, status)),
    };
    pair.filter(|(first, last)| (100..=599).contains(first) && (*first..=599).contains(last))
        .ok_or_else(refuse)
}

impl From<Statuses> for Vec<String> {
    fn from(statuses: Statuses) -> Self {
        let text = |(first, last): (u16, u16)| {
            if first == last { first.to_string() } else { format!("{first}-{last}") }
        };
        statuses.0.into_iter().map(text).collect()
    }
}

impl fmt::Display for Statuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Vec::from(self.clone()).join(", "))
    }
}

/// A number or a string.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
enum StatusEntry {
    /// One status.
    Number(u16),
    /// One, a range such as `200-299`, or a class such as `2xx`.
    Text(String),
}

impl<'de> Deserialize<'de> for Statuses {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let entries = Vec::<StatusEntry>::deserialize(from).map_err(|_| {
            let found = serde::de::Unexpected::Other("value");
            serde::de::Error::invalid_type(found, &"statuses")
        })?;
        let texts: Vec<String> = entries
            .into_iter()
            .map(|one| match one {
                StatusEntry::Number(status) => status.to_string(),
                StatusEntry::Text(text) => text,
            })
            .collect();
        Self::read(&texts).map_err(serde::de::Error::custom)
    }
}
