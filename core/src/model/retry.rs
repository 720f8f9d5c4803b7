//! Retry: decides from the number of a retry and a few facts of the message how often a message is tried, and
//! when. Jitter is a hash of message id and retry number, so a retry time can be asserted. Nothing here
//! overflows: a wait that would be too long is the policy's cap.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::model::{MessageId, mix};

/// Largest number of intervals in a list.
const INTERVALS_MAX: usize = 1_000;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);

/// Number of attempts of a message, and the waits between them.
///
/// A retry is an attempt after the first: `retries_max(3)` and `attempts(4)` mean the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[must_use]
pub struct Retry {
    /// Largest number of attempts, the first included; none means no limit, 0 means the same as 1.
    pub attempts_max: Option<u32>,
    /// Wait before each further attempt.
    pub backoff: BackOffKind,
}

/// Waits before retries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackOffKind {
    /// A fixed list; after its end the last wait repeats.
    Intervals(#[serde(with = "crate::model::duration_text")] Vec<Duration>),
    /// Each wait is a factor longer than the one before, up to a cap, with jitter.
    Exponential {
        /// First wait.
        #[serde(with = "crate::model::duration_text")]
        first: Duration,
        /// Factor by which each wait is longer than the one before.
        factor: f64,
        /// Longest wait, before jitter.
        #[serde(with = "crate::model::duration_text")]
        cap: Duration,
        /// Share by which a wait may be shorter or longer, 0 to 1.
        jitter: f64,
    },
    /// In proportion to the original delay of the message.
    Proportional {
        /// Share of the original delay by which each retry waits longer.
        ratio: f64,
        /// Longest wait.
        #[serde(with = "crate::model::duration_text")]
        cap: Duration,
        /// Shortest wait.
        #[serde(with = "crate::model::duration_text")]
        floor: Duration,
    },
}

/// Facts that a wait depends on besides the number of the retry.
#[derive(Clone, Copy, Debug)]
pub struct RetryFacts {
    /// Id of the message, for its jitter.
    pub message: MessageId,
    /// Time between creation and first due time of the message.
    pub original_delay: Duration,
}

impl Default for Retry {
    /// Returns [`Retry::exponential`].
    fn default() -> Self {
        Self::exponential()
    }
}

impl Retry {
    /// Returns a policy of one attempt without retries.
    pub fn none() -> Self {
        Self { attempts_max: Some(1), backoff: BackOffKind::Intervals(Vec::new()) }
    }

    /// Returns a policy of one retry after each of these waits; with more retries, the last wait repeats.
    pub fn intervals(waits: impl IntoIterator<Item = Duration>) -> Self {
        let waits: Vec<Duration> = waits.into_iter().collect();
        let retries = u32::try_from(waits.len()).unwrap_or(u32::MAX);
        Self { attempts_max: None, backoff: BackOffKind::Intervals(waits) }.retries_max(retries)
    }

    /// Returns a policy of five attempts: 30 seconds apart, then twice as long each time up to an hour, with a
    /// jitter of a fifth.
    pub fn exponential() -> Self {
        let backoff = BackOffKind::Exponential {
            first: Duration::from_secs(30),
            factor: 2.0,
            cap: HOUR,
            jitter: 0.2,
        };
        Self { attempts_max: Some(5), backoff }
    }

    /// Returns a policy of three retries, each a further tenth of the original delay later: at most an hour, at
    /// least a second.
    pub fn proportional() -> Self {
        let backoff = BackOffKind::Proportional { ratio: 0.1, cap: HOUR, floor: SECOND };
        Self { attempts_max: Some(4), backoff }
    }

    /// Sets the number of retries after the first attempt.
    pub fn retries_max(self, retries: u32) -> Self {
        self.attempts(retries.saturating_add(1))
    }

    /// Sets the number of attempts, the first included; 0 and 1 both mean no retry.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts_max = Some(attempts.max(1));
        self
    }

    /// Removes the limit of attempts.
    pub fn unlimited(mut self) -> Self {
        self.attempts_max = None;
        self
    }

    /// Returns whether the attempt with this number, from 1, was the last one allowed.
    pub fn is_exhausted(&self, attempt: u32) -> bool {
        self.attempts_max.is_some_and(|most| attempt >= most)
    }

    /// Returns the wait before the retry with this number, from 1; 0 is taken for 1.
    pub fn delay(&self, retry: u32, facts: RetryFacts) -> Duration {
        let retry = retry.max(1);
        match &self.backoff {
            BackOffKind::Intervals(waits) => {
                let index = usize::try_from(retry - 1).unwrap_or(usize::MAX);
                waits.get(index).or(waits.last()).copied().unwrap_or(Duration::ZERO)
            }
            BackOffKind::Exponential { first, factor, cap, jitter } => {
                let wait = capped_seconds(first.as_secs_f64() * power(*factor, retry - 1), *cap);
                // Never past twice the cap, which is what a jitter of 1 may add.
                capped_seconds(
                    wait.as_secs_f64() * (1.0 + jitter * jitter_factor(facts.message, retry)),
                    cap.saturating_mul(2),
                )
            }
            BackOffKind::Proportional { ratio, cap, floor } => {
                capped_seconds(facts.original_delay.as_secs_f64() * ratio * f64::from(retry), *cap)
                    .max(*floor)
            }
        }
    }

    /// Fails when the policy can never work.
    pub fn check(&self) -> Result<()> {
        match &self.backoff {
            BackOffKind::Intervals(waits) => self.check_intervals(waits),
            BackOffKind::Exponential { first, factor, cap, jitter } => {
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
            BackOffKind::Proportional { ratio, cap, floor } => {
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

/// Returns a number of seconds as a duration of at most `cap`; for NaN and negative numbers the cap.
fn capped_seconds(wanted: f64, cap: Duration) -> Duration {
    Duration::try_from_secs_f64(wanted).map_or(cap, |wait| wait.min(cap))
}

/// Returns `factor` to the power of `exponent`, by squaring: the same bits on every machine, and infinite where
/// it is too large.
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

/// Returns a number between -1 and 1 that is fixed for this retry of this message.
fn jitter_factor(message: MessageId, retry: u32) -> f64 {
    let (high, low) = message.as_uuid().as_u64_pair();
    let hash = mix(high ^ mix(low ^ mix(u64::from(retry))));
    let top = u32::try_from(hash >> 32).unwrap_or(u32::MAX);
    f64::from(top) / f64::from(u32::MAX) * 2.0 - 1.0
}

#[cfg(test)]
mod tests;
