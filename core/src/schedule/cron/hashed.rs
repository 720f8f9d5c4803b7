//! `H`: a value drawn once from the seed, so that many schedules spread over
//! the hour and each stays where it is.
//!
//! The draw is the frozen hash of seed and field name modulo the number of
//! values. Macros are not spread; days stay within 1 to 28 and weekdays are
//! seven, so that no value is rarer or likelier than another.

use super::field::CronField;
use crate::schedule::hash::stable_hash;

/// The bounds of one `H`.
pub(super) struct Draw {
    pub(super) low: u8,
    pub(super) high: u8,
    pub(super) step: Option<u8>,
}

impl Draw {
    /// The drawn value; with a step, the first one, less than a step above the
    /// low end.
    pub(super) fn value(&self, seed: &str, field: CronField) -> u8 {
        let count = self.high - self.low + 1;
        let choices = self.step.map_or(count, |step| step.min(count));
        let hash = stable_hash(&[seed.as_bytes(), field.name().as_bytes()]);
        let place = hash % u64::from(choices);
        self.low + u8::try_from(place).unwrap_or(0)
    }

    /// The text that means the same without `H`; a stepped one stays a range,
    /// which keeps the expression interval-like.
    pub(super) fn text(&self, value: u8) -> String {
        match self.step {
            Some(step) => format!("{value}-{}/{step}", self.high),
            None => value.to_string(),
        }
    }
}
