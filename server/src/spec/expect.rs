//! Which HTTP statuses are meant: single ones, ranges and classes.

use std::fmt;

use punctual::{Error, Result};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

/// The most entries of a list.
const ENTRIES_MAX: usize = 50;

/// Statuses: a list of `200`, `"200-299"` and `"2xx"`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(value_type = Vec<Written>)]
#[serde(into = "Vec<String>")]
pub struct Statuses(Vec<(u16, u16)>);

impl Statuses {
    /// Every status that means success.
    pub fn success() -> Self {
        Self(vec![(200, 299)])
    }

    /// Whether a status is among them.
    pub fn contains(&self, status: u16) -> bool {
        self.0.iter().any(|(first, last)| (*first..=*last).contains(&status))
    }

    fn read(texts: &[String]) -> Result<Self> {
        if texts.is_empty() || texts.len() > ENTRIES_MAX {
            return Err(Error::invalid(format!(
                "{} statuses were given; give 1 to {ENTRIES_MAX}",
                texts.len()
            )));
        }
        texts.iter().map(|text| range(text)).collect::<Result<_>>().map(Self)
    }
}

fn range(text: &str) -> Result<(u16, u16)> {
    let refuse = || {
        Error::invalid(format!(
            "{text:?} is no status; write one such as 204, \"200-299\" or \"2xx\""
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

/// A number or a text.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
enum Written {
    /// One status.
    Number(u16),
    /// One, a range such as `200-299`, or a class such as `2xx`.
    Text(String),
}

impl<'de> Deserialize<'de> for Statuses {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let written = Vec::<Written>::deserialize(from).map_err(|_| {
            let found = serde::de::Unexpected::Other("value");
            serde::de::Error::invalid_type(found, &"statuses")
        })?;
        let texts: Vec<String> = written
            .into_iter()
            .map(|one| match one {
                Written::Number(status) => status.to_string(),
                Written::Text(text) => text,
            })
            .collect();
        Self::read(&texts).map_err(serde::de::Error::custom)
    }
}
