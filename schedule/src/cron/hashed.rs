//! `H`: a value drawn once from the seed, so that many schedules spread over
//! the hour and each stays where it is.
//!
//! The draw is the frozen hash of seed and field name modulo the number of
//! values. Macros are not spread; days stay within 1 to 28 and weekdays are
//! seven, so that no value is rarer or likelier than another.

use super::error::{CronError, CronErrorKind as Kind};
use super::field::CronField;
use super::reader::{Reader, range_bits};
use crate::hash::stable_hash;

impl Reader<'_> {
    /// `H`, `H/n`, `H(a-b)` or `H(a-b)/n`.
    pub(super) fn hashed(&mut self) -> Result<u64, CronError> {
        let start = self.at;
        let Some(seed) = self.seed else {
            return Err(self.error(
                Kind::SeedMissing,
                "H draws its value from a seed, and none was given; give one, or write a value"
                    .to_owned(),
            ));
        };
        self.at += 1;
        let (low, high) = if self.accept(b'(') {
            self.hashed_range()?
        } else {
            (self.field.low(), self.field.hashed_high())
        };
        let step = if self.accept(b'/') { Some(self.step()?) } else { None };
        let draw = Draw { low, high, step };
        self.interval_like |= step.is_some() && self.field.is_time();
        let from = draw.value(seed, self.field);
        self.draws.push((start, self.at, draw.text(from)));
        match step {
            Some(step) => Ok(range_bits(self.field, from, high, step)),
            None => Ok(1 << from),
        }
    }

    fn hashed_range(&mut self) -> Result<(u8, u8), CronError> {
        let start = self.at;
        let low = self.value()?;
        if !self.accept(b'-') {
            return Err(self.unexpected());
        }
        let high = self.value()?;
        if !self.accept(b')') {
            return Err(self.unexpected());
        }
        if low > high || high > self.field.hashed_high() {
            self.at = start;
            return Err(self.error(
                Kind::Value,
                format!(
                    "H draws from {low}-{high}, but the range must rise within {}-{}",
                    self.field.low(),
                    self.field.hashed_high()
                ),
            ));
        }
        Ok((low, high))
    }
}

/// The bounds of one `H`.
struct Draw {
    low: u8,
    high: u8,
    step: Option<u8>,
}

impl Draw {
    /// Returns the drawn value; with a step, the first one, less than a step above the
    /// low end.
    fn value(&self, seed: &str, field: CronField) -> u8 {
        let count = self.high - self.low + 1;
        let choices = self.step.map_or(count, |step| step.min(count));
        let hash = stable_hash(&[seed.as_bytes(), field.name().as_bytes()]);
        let place = hash % u64::from(choices);
        self.low + u8::try_from(place).unwrap_or(0)
    }

    /// Returns the text that means the same without `H`; a stepped one stays a range,
    /// which keeps the expression interval-like.
    fn text(&self, value: u8) -> String {
        match self.step {
            Some(step) => format!("{value}-{}/{step}", self.high),
            None => value.to_string(),
        }
    }
}
