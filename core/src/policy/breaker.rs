//! Breaker: decides from the results of recent attempts whether a subscription receives messages. After a
//! number of failures in a row the circuit opens and nothing is received. After a wait one message is let
//! through as a probe: its success closes the circuit, its failure opens it again, for longer. A probe without
//! a result is not waited for longer than that wait; then another one is let through, so no circuit stays open
//! for ever.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::AttemptEnd;
use crate::error::{Error, Result};
use crate::model::time::add;

/// Settings of a circuit: when it opens, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Breaker {
    /// Number of failures in a row that open it. Default 5.
    pub failures_max: u32,
    /// Wait before the first probe. Default 30 s.
    pub wait: Duration,
    /// Longest wait; each failed probe doubles the wait up to this. Default 5 min.
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

/// State of a circuit.
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
        /// When the first probe is allowed.
        until: Timestamp,
        /// Number of times it opened since it was last closed.
        openings: u32,
    },
    /// One message at a time is let through, as a probe.
    HalfOpen {
        /// When another probe is allowed although the running one has no result; none without a running probe.
        probing_until: Option<Timestamp>,
        /// Number of times it opened since it was last closed.
        openings: u32,
    },
}

impl Default for Circuit {
    fn default() -> Self {
        Self::Closed { failures: 0 }
    }
}

impl Circuit {
    /// Returns the state in one or two lower-case words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed { .. } => "closed",
            Self::Open { .. } => "open",
            Self::HalfOpen { .. } => "half open",
        }
    }
}

/// Number of messages that may be received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerDecision {
    /// As many as the limits of the subscription allow.
    All,
    /// One, as a probe.
    One,
    /// None before this instant.
    NotBefore(Timestamp),
}

/// Signal of an attempt about the health of what its handler depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerSignal {
    /// The handler works.
    Good,
    /// The attempt failed in a way that may pass: an error, a panic, a timeout, a request to retry.
    Bad,
    /// No signal: the message was at fault, or the handler did not run.
    None,
}

impl BreakerSignal {
    /// Returns the signal of how an attempt ended.
    pub fn of(end: &AttemptEnd) -> Self {
        match end {
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
    /// Returns a breaker that opens after so many failures in a row.
    pub fn after(failures_max: u32) -> Self {
        Self { failures_max, ..Self::default() }
    }

    /// Sets the wait before the first probe; later ones wait at most ten times as long.
    pub fn wait(self, wait: Duration) -> Self {
        Self { wait, wait_max: wait.saturating_mul(10), ..self }
    }

    /// Fails when the settings cannot work.
    pub fn check(&self) -> Result<()> {
        if self.failures_max == 0 || self.wait.is_zero() || self.wait_max < self.wait {
            return Err(Error::invalid(format!(
                "a breaker that opens after {} failures for {:?} to {:?} cannot work; give at least 1 failure and a wait such as 30s",
                self.failures_max, self.wait, self.wait_max
            )));
        }
        Ok(())
    }

    /// Returns the state of a circuit now, and how many messages may be received.
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

    /// Returns the state of a circuit after an attempt has started.
    pub fn attempt_started(&self, circuit: Circuit, now: Timestamp) -> Circuit {
        match circuit {
            Circuit::HalfOpen { openings, .. } => {
                let probing_until = Some(add(now, self.wait_after(openings)));
                Circuit::HalfOpen { probing_until, openings }
            }
            _ => circuit,
        }
    }

    /// Returns the state of a circuit after an attempt has ended. Attempts that started before it opened and
    /// end while it is open change nothing.
    pub fn attempt_ended(
        &self,
        circuit: Circuit,
        signal: BreakerSignal,
        now: Timestamp,
    ) -> Circuit {
        match (circuit, signal) {
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
