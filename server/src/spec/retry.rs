//! How failed runs are tried again and missed ones made up for, as people write it.

use std::collections::BTreeMap;
use std::fmt;

use punctual::policy::{Backoff, MisfirePolicy};
use punctual::{Error, Misfire, Result, Retry};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::length;

/// How often a failed run is tried again. A bare number stands for `retries`, a
/// bare list for `waits`. Either `waits`, or the
/// growing waits of `first`, `factor`, `cap` and `jitter`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RetrySpec {
    /// So many times after the first attempt; as many as there are `waits`, or 4, when not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// As often as it takes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unlimited: bool,
    /// A fixed list of waits; the last one repeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits: Option<Vec<String>>,
    /// The first wait; 30 s when not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
    /// By how much each wait is longer than the one before; 2 when not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
    /// The longest wait; an hour when not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap: Option<String>,
    /// The share by which a wait may be shorter or longer, 0 to 1; 0.2 when not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<f64>,
}

impl RetrySpec {
    /// The policy; refuses what cannot work.
    pub fn retry(&self) -> Result<Retry> {
        let mut retry = match &self.waits {
            Some(waits) if self.grows() => {
                return Err(Error::invalid(format!(
                    "the {} waits leave no room for first, factor, cap and jitter; say one or the other",
                    waits.len()
                )));
            }
            Some(waits) => {
                let waits: Result<Vec<_>> = waits.iter().map(|wait| length(wait)).collect();
                Retry::intervals(waits?)
            }
            None => self.growing()?,
        };
        match (self.retries, self.unlimited) {
            (Some(_), true) => {
                return Err(Error::invalid("retries and unlimited exclude each other; say one"));
            }
            (Some(0), false) => retry = Retry::none(),
            (Some(retries), false) => retry = retry.max_retries(retries),
            (None, true) => retry = retry.unlimited(),
            (None, false) => {}
        }
        retry.check()?;
        Ok(retry)
    }

    fn grows(&self) -> bool {
        self.first.is_some() || self.factor.is_some() || self.cap.is_some() || self.jitter.is_some()
    }

    fn growing(&self) -> Result<Retry> {
        let mut retry = Retry::exponential();
        if let Backoff::Exponential { first, factor, cap, jitter } = &mut retry.backoff {
            if let Some(text) = &self.first {
                *first = length(text)?;
            }
            if let Some(text) = &self.cap {
                *cap = length(text)?;
            }
            *factor = self.factor.unwrap_or(*factor);
            *jitter = self.jitter.unwrap_or(*jitter);
        }
        Ok(retry)
    }
}

/// What may be written for it.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only described; `RetryReader` reads it")]
pub(crate) enum RetryText {
    /// So many retries.
    Retries(u32),
    /// After each of these waits, such as `["10s", "1m"]`.
    Waits(Vec<String>),
    /// The table.
    Table(RetrySpec),
}

/// What may be written for a misfire policy.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only described; `MisfireReader` reads it")]
pub(crate) enum MisfireText {
    /// Its name, such as `fire_now`.
    Policy(String),
    /// A table with `policy`, `threshold`, `window` and `catch_up_max`.
    Table(BTreeMap<String, Value>),
}

/// The table form.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
struct Table {
    retries: Option<u32>,
    unlimited: bool,
    waits: Option<Vec<String>>,
    first: Option<String>,
    factor: Option<f64>,
    cap: Option<String>,
    jitter: Option<f64>,
}

impl From<Table> for RetrySpec {
    fn from(table: Table) -> Self {
        let Table { retries, unlimited, waits, first, factor, cap, jitter } = table;
        Self { retries, unlimited, waits, first, factor, cap, jitter }
    }
}

impl<'de> Deserialize<'de> for RetrySpec {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(RetryReader)
    }
}

struct RetryReader;

impl<'de> Visitor<'de> for RetryReader {
    type Value = RetrySpec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a retry policy")
    }

    fn visit_u64<E: serde::de::Error>(self, retries: u64) -> Result<RetrySpec, E> {
        let retries = u32::try_from(retries)
            .map_err(|_| E::custom(format!("{retries} retries are too many")))?;
        Ok(RetrySpec { retries: Some(retries), ..RetrySpec::default() })
    }

    fn visit_i64<E: serde::de::Error>(self, retries: i64) -> Result<RetrySpec, E> {
        let retries = u64::try_from(retries)
            .map_err(|_| E::custom(format!("{retries} retries are fewer than none")))?;
        self.visit_u64(retries)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<RetrySpec, A::Error> {
        let waits = Vec::deserialize(SeqAccessDeserializer::new(items))?;
        Ok(RetrySpec { waits: Some(waits), ..RetrySpec::default() })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RetrySpec, A::Error> {
        Table::deserialize(MapAccessDeserializer::new(map)).map(Into::into)
    }
}

/// Reads a misfire policy: its name, or a table.
pub(super) fn misfire<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Misfire>, D::Error> {
    from.deserialize_any(MisfireReader)
}

struct MisfireReader;

impl<'de> Visitor<'de> for MisfireReader {
    type Value = Option<Misfire>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a misfire policy")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Option<Misfire>, E> {
        let policy: MisfirePolicy = text.parse().map_err(E::custom)?;
        Ok(Some(policy.into()))
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Option<Misfire>, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Option<Misfire>, A::Error> {
        Misfire::deserialize(MapAccessDeserializer::new(map)).map(Some)
    }
}
