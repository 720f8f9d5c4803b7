//! Retry and misfire policies in job definitions.

use punctual::model::{BackOffKind, MisfirePolicy};
use std::collections::BTreeMap;
use std::fmt;

use punctual::{Error, Misfire, Result, Retry};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::duration;

/// Retries of a failed run. A bare number stands for `retries`, a bare list for `waits`. Either `waits`, or
/// exponential back-off with `first`, `factor`, `cap` and `jitter`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RetrySpec {
    /// Number of retries after the first attempt; the number of `waits`, or 4, by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// Retries without a limit.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unlimited: bool,
    /// Fixed waits before the retries; the last one repeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits: Option<Vec<String>>,
    /// The first wait; 30 s by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
    /// Growth factor of the waits; 2 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
    /// The longest wait; 1 h by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap: Option<String>,
    /// Random share by which a wait may differ, 0 to 1; 0.2 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<f64>,
}

impl RetrySpec {
    /// Returns the policy; fails when it is invalid.
    pub fn retry(&self) -> Result<Retry> {
        let mut retry = match &self.waits {
            Some(waits) if self.is_exponential() => {
                return Err(Error::invalid(format!(
                    "waits ({} given) exclude first, factor, cap and jitter; set one or the other",
                    waits.len()
                )));
            }
            Some(waits) => {
                let waits: Result<Vec<_>> = waits.iter().map(|wait| duration(wait)).collect();
                Retry::intervals(waits?)
            }
            None => self.exponential()?,
        };
        match (self.retries, self.unlimited) {
            (Some(_), true) => {
                return Err(Error::invalid(
                    "retries and unlimited exclude each other; set one of them",
                ));
            }
            (Some(0), false) => retry = Retry::none(),
            (Some(retries), false) => retry = retry.retries_max(retries),
            (None, true) => retry = retry.unlimited(),
            (None, false) => {}
        }
        retry.check()?;
        Ok(retry)
    }

    fn is_exponential(&self) -> bool {
        self.first.is_some() || self.factor.is_some() || self.cap.is_some() || self.jitter.is_some()
    }

    fn exponential(&self) -> Result<Retry> {
        let mut retry = Retry::exponential();
        if let BackOffKind::Exponential { first, factor, cap, jitter } = &mut retry.backoff {
            if let Some(text) = &self.first {
                *first = duration(text)?;
            }
            if let Some(text) = &self.cap {
                *cap = duration(text)?;
            }
            *factor = self.factor.unwrap_or(*factor);
            *jitter = self.jitter.unwrap_or(*jitter);
        }
        Ok(retry)
    }
}

/// Schema of `retry`.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only for the schema; `RetryReader` parses it")]
pub(crate) enum RetryText {
    /// Number of retries.
    Retries(u32),
    /// Waits before the retries, such as `["10s", "1m"]`.
    Waits(Vec<String>),
    /// The table.
    Table(RetrySpec),
}

/// Schema of `misfire`.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only for the schema; `MisfireReader` parses it")]
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
            .map_err(|_| E::custom(format!("{retries} retries is out of range, use 0 or more")))?;
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

/// Deserializes a misfire policy: its name, or a table.
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
