//! The terms a message is handled under: how often it may be tried, how long one try may take, and
//! what a crash means. They travel with the message, so that any node can judge it, also one that
//! has never heard of its handler.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::policy::Retry;

/// What applies to every attempt of one message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Terms {
    /// How often, and when again.
    pub retry: Retry,
    /// How long one attempt may take; none means as long as it likes.
    #[serde(with = "super::length")]
    pub timeout: Option<Duration>,
    /// What an attempt that took too long leads to.
    pub on_timeout: OnTimeout,
    /// What the loss of its process leads to.
    pub rescue: Rescue,
    /// How many lost processes are forgiven before one counts as a failed attempt; 0 forgives all.
    pub crashes_max: u32,
    /// How often it may be snoozed before a snooze counts as a failed attempt.
    pub snoozes_max: u32,
    /// Which executions are kept as history.
    pub recording: Recording,
    /// How late after its planned time an attempt may still begin; none means however late.
    #[serde(with = "super::length", skip_serializing_if = "Option::is_none")]
    pub expires_after: Option<Duration>,
    /// How long an external lock is asked for; none means the usual length.
    #[serde(with = "super::length", skip_serializing_if = "Option::is_none")]
    pub lock_length: Option<Duration>,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            retry: Retry::default(),
            timeout: None,
            on_timeout: OnTimeout::Retry,
            rescue: Rescue::AtOnce,
            crashes_max: 5,
            snoozes_max: 1_000,
            recording: Recording::All,
            expires_after: None,
            lock_length: None,
        }
    }
}

impl Terms {
    /// The terms of a recurring job: its next occurrence is its retry.
    pub fn recurring() -> Self {
        Self { retry: Retry::none(), ..Self::default() }
    }

    /// The terms of a one-time job: three retries in proportion to how far ahead it was planned, and
    /// a lost process spends one of them.
    pub fn deferred() -> Self {
        Self { retry: Retry::proportional(), rescue: Rescue::AsFailure, ..Self::default() }
    }
}

/// What an attempt that exceeded its timeout leads to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnTimeout {
    /// The same as any failure: ask the retry policy.
    #[default]
    Retry,
    /// Give up at once.
    Fail,
}

/// What the loss of its process means for a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rescue {
    /// Due again at once, the attempt given back, until the crash budget is used up.
    #[default]
    AtOnce,
    /// A failed attempt like any other, with its delay.
    AsFailure,
}

/// Which executions are kept as history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recording {
    /// Every attempt.
    #[default]
    All,
    /// Only attempts that did not succeed.
    Failures,
    /// None; for queues where history costs more than it is worth.
    None,
}
