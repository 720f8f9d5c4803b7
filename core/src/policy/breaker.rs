//! Breaker: whether a subscription receives while its handler keeps failing. After so many failures in a
//! row the circuit opens and nothing is received; after a wait one message is let through to probe; its
//! success closes the circuit, its failure opens it again, for longer. A probe that gives no answer is not
//! waited for: after the same wait another one is let through, so no circuit is ever stuck.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::AttemptEnd;
use crate::clock::add;
use crate::error::{Error, Result};

/// When a circuit opens, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Breaker {
    /// How many failures in a row open it. Default 5.
    pub failures_max: u32,
    /// How long it stays open before the first probe. Default 30 s.
    pub wait: Duration,
    /// Each probe that fails doubles the wait, up to this. Default 5 min.
    pub wait_max: Duration,
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            failures_max: 5,
            wait: Duration::from_secs(30),
            wait_max: Duration::from_secs(5 * 60),
        }
    }
}

/// How a circuit stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Circuit {
    /// Everything is received.
    Closed {
        /// Failures in a row so far.
        failures: u32,
    },
    /// Nothing is received.
    Open {
        /// Until when.
        until: Timestamp,
        /// How often it opened since it was last closed.
        openings: u32,
    },
    /// One message at a time is let through to probe.
    HalfOpen {
        /// Until when the probe that is under way is waited for, when there is one.
        probing_until: Option<Timestamp>,
        /// How often it opened since it was last closed.
        openings: u32,
    },
}

impl Default for Circuit {
    fn default() -> Self {
        Self::Closed { failures: 0 }
    }
}

impl Circuit {
    /// How it stands, in one word or two.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed { .. } => "closed",
            Self::Open { .. } => "open",
            Self::HalfOpen { .. } => "half open",
        }
    }
}

/// How many messages may be received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerDecision {
    /// As many as there is room for.
    All,
    /// One, to probe.
    One,
    /// None before this instant.
    NotBefore(Timestamp),
}

/// What an attempt says about the health of what its handler works with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerSignal {
    /// It works.
    Good,
    /// It failed in a way that may pass: an error, a panic, a timeout, a wish to try again.
    Bad,
    /// Neither: the message was at fault, or nothing was tried.
    None,
}

impl BreakerSignal {
    /// What a report says.
    pub fn of(report: &AttemptEnd) -> Self {
        match report {
            AttemptEnd::Done => Self::Good,
            AttemptEnd::Failed { .. }
            | AttemptEnd::Panicked { .. }
            | AttemptEnd::TimedOut { .. }
            | AttemptEnd::RetryAfter { .. } => Self::Bad,
            _ => Self::None,
        }
    }
}

impl Breaker {
    /// A breaker that opens after so many failures in a row.
    pub fn after(failures_max: u32) -> Self {
        Self { failures_max, ..Self::default() }
    }

    /// The wait before the first probe; later ones wait at most ten times as long.
    pub fn wait(self, wait: Duration) -> Self {
        Self { wait, wait_max: wait.saturating_mul(10), ..self }
    }

    /// Refuses what cannot work.
    pub fn check(&self) -> Result<()> {
        if self.failures_max == 0 || self.wait.is_zero() || self.wait_max < self.wait {
            return Err(Error::invalid(format!(
                "a breaker that opens after {} failures for {:?} to {:?} cannot work; give at least 1 failure and a wait such as 30s",
                self.failures_max, self.wait, self.wait_max
            )));
        }
        Ok(())
    }

    /// How a circuit stands now, and what it lets through.
    pub fn admits(&self, circuit: Circuit, now: Timestamp) -> (Circuit, BreakerDecision) {
        match circuit {
            Circuit::Closed { .. } => (circuit, BreakerDecision::All),
            Circuit::Open { until, .. } | Circuit::HalfOpen { probing_until: Some(until), .. }
                if now < until =>
            {
                (circuit, BreakerDecision::NotBefore(until))
            }
            Circuit::Open { openings, .. } | Circuit::HalfOpen { openings, .. } => {
                (Circuit::HalfOpen { probing_until: None, openings }, BreakerDecision::One)
            }
        }
    }

    /// How a circuit stands when an attempt has begun.
    pub fn begun(&self, circuit: Circuit, now: Timestamp) -> Circuit {
        match circuit {
            Circuit::HalfOpen { openings, .. } => {
                let probing_until = Some(add(now, self.wait_after(openings)));
                Circuit::HalfOpen { probing_until, openings }
            }
            _ => circuit,
        }
    }

    /// How a circuit stands when an attempt has ended. What was begun before it opened and ends while it
    /// is open says nothing new.
    pub fn ended(&self, circuit: Circuit, sign: BreakerSignal, now: Timestamp) -> Circuit {
        match (circuit, sign) {
            (Circuit::Closed { .. } | Circuit::HalfOpen { .. }, BreakerSignal::Good) => {
                Circuit::default()
            }
            (Circuit::Closed { failures }, BreakerSignal::Bad)
                if failures + 1 < self.failures_max =>
            {
                Circuit::Closed { failures: failures + 1 }
            }
            (Circuit::Closed { .. }, BreakerSignal::Bad) => self.open(1, now),
            (Circuit::HalfOpen { openings, .. }, BreakerSignal::Bad) => {
                self.open(openings.saturating_add(1), now)
            }
            (Circuit::HalfOpen { openings, .. }, BreakerSignal::None) => {
                Circuit::HalfOpen { probing_until: None, openings }
            }
            _ => circuit,
        }
    }

    fn open(&self, openings: u32, now: Timestamp) -> Circuit {
        Circuit::Open { until: add(now, self.wait_after(openings)), openings }
    }

    fn wait_after(&self, openings: u32) -> Duration {
        self.wait.saturating_mul(1 << openings.saturating_sub(1).min(30)).min(self.wait_max)
    }
}

#[cfg(test)]
mod tests;
