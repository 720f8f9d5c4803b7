//! Retry: how often, and when again. The delay is a pure function of the retry's number and a few
//! facts of the message; jitter is a hash of id and retry, so a retry time can be asserted. Nothing
//! here overflows: a wait that would be too long is the policy's cap.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::model::{MessageId, mix};

/// The most intervals a list may have.
pub const INTERVALS_MAX: usize = 1_000;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);

/// How often a message may be tried, and how long to wait between tries.
///
/// A retry is an attempt after the first: `max_retries(3)` and `attempts(4)` say the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[must_use]
pub struct Retry {
    /// The most attempts, the first included; none means no limit, 0 means the same as 1.
    pub attempts_max: Option<u32>,
    /// The wait before each further attempt.
    pub backoff: Backoff,
}

/// How long to wait before a retry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backoff {
    /// A fixed list; after its end the last one repeats.
    Intervals(#[serde(with = "crate::model::duration_text")] Vec<Duration>),
    /// Each wait a factor longer than the one before, up to a cap, give or take some jitter.
    Exponential {
        /// The first wait.
        #[serde(with = "crate::model::duration_text")]
        first: Duration,
        /// By how much each is longer.
        factor: f64,
        /// The longest wait, before jitter.
        #[serde(with = "crate::model::duration_text")]
        cap: Duration,
        /// The share by which a wait may be shorter or longer, 0 to 1.
        jitter: f64,
    },
    /// In proportion to how far ahead the message was planned.
    Proportional {
        /// The share of the original delay that each further retry waits longer.
        ratio: f64,
        /// The longest wait.
        #[serde(with = "crate::model::duration_text")]
        cap: Duration,
        /// The shortest wait.
        #[serde(with = "crate::model::duration_text")]
        floor: Duration,
    },
}

/// What a delay depends on besides the number of the retry.
#[derive(Clone, Copy, Debug)]
pub struct RetryFacts {
    /// The message, for its jitter.
    pub message: MessageId,
    /// How far ahead it was planned.
    pub original_delay: Duration,
}

impl Default for Retry {
    /// Five attempts, exponentially apart.
    fn default() -> Self {
        Self::exponential()
    }
}

impl Retry {
    /// One attempt and no more.
    pub fn none() -> Self {
        Self { attempts_max: Some(1), backoff: Backoff::Intervals(Vec::new()) }
    }

    /// One retry after each of these waits; allowed more, the last wait repeats.
    pub fn intervals(waits: impl IntoIterator<Item = Duration>) -> Self {
        let waits: Vec<Duration> = waits.into_iter().collect();
        let retries = u32::try_from(waits.len()).unwrap_or(u32::MAX);
        Self { attempts_max: None, backoff: Backoff::Intervals(waits) }.max_retries(retries)
    }

    /// Five attempts, 30 seconds apart, then twice as long each time up to an hour, give or take a
    /// fifth.
    pub fn exponential() -> Self {
        let backoff = Backoff::Exponential {
            first: Duration::from_secs(30),
            factor: 2.0,
            cap: HOUR,
            jitter: 0.2,
        };
        Self { attempts_max: Some(5), backoff }
    }

    /// Three retries, each a further tenth of the original delay later: at most an hour, at least a
    /// second.
    pub fn proportional() -> Self {
        let backoff = Backoff::Proportional { ratio: 0.1, cap: HOUR, floor: SECOND };
        Self { attempts_max: Some(4), backoff }
    }

    /// So many retries after the first attempt.
    pub fn max_retries(self, retries: u32) -> Self {
        self.attempts(retries.saturating_add(1))
    }

    /// So many attempts, the first included; 0 and 1 both mean no retry.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts_max = Some(attempts.max(1));
        self
    }

    /// As many attempts as it takes.
    pub fn unlimited(mut self) -> Self {
        self.attempts_max = None;
        self
    }

    /// Whether the attempt with this number, from 1, was the last one allowed.
    pub fn is_exhausted(&self, attempt: u32) -> bool {
        self.attempts_max.is_some_and(|most| attempt >= most)
    }

    /// How long to wait before the retry with this number, from 1; 0 is taken for 1.
    pub fn delay(&self, retry: u32, facts: RetryFacts) -> Duration {
        let retry = retry.max(1);
        match &self.backoff {
            Backoff::Intervals(waits) => {
                let index = usize::try_from(retry - 1).unwrap_or(usize::MAX);
                waits.get(index).or(waits.last()).copied().unwrap_or(Duration::ZERO)
            }
            Backoff::Exponential { first, factor, cap, jitter } => {
                let wait = seconds(first.as_secs_f64() * power(*factor, retry - 1), *cap);
                // Never past twice the cap, which is what a jitter of 1 may add.
                seconds(
                    wait.as_secs_f64() * (1.0 + jitter * swing(facts.message, retry)),
                    cap.saturating_mul(2),
                )
            }
            Backoff::Proportional { ratio, cap, floor } => {
                seconds(facts.original_delay.as_secs_f64() * ratio * f64::from(retry), *cap)
                    .max(*floor)
            }
        }
    }

    /// Refuses what can never work, and says what would.
    pub fn check(&self) -> Result<()> {
        match &self.backoff {
            Backoff::Intervals(waits) => self.check_intervals(waits),
            Backoff::Exponential { first, factor, cap, jitter } => {
                if !factor.is_finite() || *factor < 1.0 {
                    return Err(Error::invalid(format!(
                        "the retry factor {factor} must be a number of at least 1"
                    )));
                }
                if !(0.0..=1.0).contains(jitter) {
                    return Err(Error::invalid(format!(
                        "the retry jitter {jitter} must be between 0 and 1"
                    )));
                }
                check_order(("first wait", *first), *cap)
            }
            Backoff::Proportional { ratio, cap, floor } => {
                if !ratio.is_finite() || *ratio < 0.0 {
                    return Err(Error::invalid(format!(
                        "the retry ratio {ratio} must be a number of at least 0"
                    )));
                }
                check_order(("floor", *floor), *cap)
            }
        }
    }

    fn check_intervals(&self, waits: &[Duration]) -> Result<()> {
        if waits.len() > INTERVALS_MAX {
            return Err(Error::invalid(format!(
                "{} retry intervals are too many; at most {INTERVALS_MAX} are allowed, and the last one repeats",
                waits.len()
            )));
        }
        if waits.is_empty() && !self.is_exhausted(1) {
            return Err(Error::invalid(
                "retries need at least one interval; give one, or allow a single attempt only",
            ));
        }
        Ok(())
    }
}

fn check_order((what, shortest): (&str, Duration), cap: Duration) -> Result<()> {
    if shortest > cap {
        return Err(Error::invalid(format!(
            "the retry cap {cap:?} is shorter than the {what} {shortest:?}; make the cap at least as long"
        )));
    }
    Ok(())
}

/// A number of seconds as a duration of at most `cap`; what is no number at all is the cap too.
fn seconds(wanted: f64, cap: Duration) -> Duration {
    Duration::try_from_secs_f64(wanted).map_or(cap, |wait| wait.min(cap))
}

/// `factor` to the power of `exponent`, by squaring: the same bits on every machine, and infinite
/// where it is too large.
fn power(factor: f64, mut exponent: u32) -> f64 {
    let (mut result, mut square) = (1.0, factor);
    while exponent > 0 {
        if exponent % 2 == 1 {
            result *= square;
        }
        square *= square;
        exponent /= 2;
    }
    result
}

/// A number between -1 and 1 that belongs to this retry of this message.
fn swing(message: MessageId, retry: u32) -> f64 {
    let (high, low) = message.as_uuid().as_u64_pair();
    let hash = mix(high ^ mix(low ^ mix(u64::from(retry))));
    let top = u32::try_from(hash >> 32).unwrap_or(u32::MAX);
    f64::from(top) / f64::from(u32::MAX) * 2.0 - 1.0
}

#[cfg(test)]
mod tests;
