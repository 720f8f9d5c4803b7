//! Handler options: the options of one layer for the attempts of a message, such as the number of attempts and
//! the timeout of each. A handler, a queue, a definition and a single call each have them; a field that is not
//! set is left to the layers outside. They are stored with the message, so that any process can decide about
//! it. Which value is in force is decided by [`effective_options`](crate::policy::effective_options).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Retry;

/// Options of one layer for every attempt of a message; fields that are not set are left to the layers outside.
///
/// ```
/// use std::time::Duration;
/// use punctual::{Retry, model::HandlerOptions};
///
/// let options = HandlerOptions::new().retry(Retry::none()).timeout(Duration::from_secs(20));
/// assert_eq!(options.crashes_max, None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HandlerOptions {
    /// Number of attempts, and the waits between them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Timeout of one attempt; zero removes that of the layers outside, so that the default of the process
    /// applies.
    #[serde(with = "none_is_zero", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Consequence of a timeout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_timeout: Option<OnTimeout>,
    /// Consequence of the loss of its process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rescue: Option<Rescue>,
    /// Whether it is run again after a crash or a shutdown has interrupted an attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when_interrupted: Option<WhenInterrupted>,
    /// Number of crashes before one counts as a failed attempt; 0 means no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crashes_max: Option<u32>,
    /// Number of snoozes before one counts as a failed attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snoozes_max: Option<u32>,
    /// Which executions are recorded in the history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recording: Option<Recording>,
    /// Longest delay after its due time at which an attempt may start.
    #[serde(with = "super::duration_text", skip_serializing_if = "Option::is_none")]
    pub expires_after: Option<Duration>,
    /// Duration of an external lock.
    #[serde(with = "super::duration_text", skip_serializing_if = "Option::is_none")]
    pub lock_duration: Option<Duration>,
}

impl HandlerOptions {
    /// Returns options with no field set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how often a failed attempt is retried, and when.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Sets the timeout of one attempt; zero removes that of the layers outside.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the consequence of a timeout.
    #[must_use]
    pub fn on_timeout(mut self, on_timeout: OnTimeout) -> Self {
        self.on_timeout = Some(on_timeout);
        self
    }

    /// Sets the consequence of the loss of its process.
    #[must_use]
    pub fn rescue(mut self, rescue: Rescue) -> Self {
        self.rescue = Some(rescue);
        self
    }

    /// Sets whether it is run again after a crash or a shutdown has interrupted an attempt.
    #[must_use]
    pub fn when_interrupted(mut self, when_interrupted: WhenInterrupted) -> Self {
        self.when_interrupted = Some(when_interrupted);
        self
    }

    /// Sets the number of crashes before one counts as a failed attempt; 0 means no limit.
    #[must_use]
    pub fn crashes_max(mut self, count: u32) -> Self {
        self.crashes_max = Some(count);
        self
    }

    /// Sets the number of snoozes before one counts as a failed attempt.
    #[must_use]
    pub fn snoozes_max(mut self, count: u32) -> Self {
        self.snoozes_max = Some(count);
        self
    }

    /// Sets which executions are recorded in the history.
    #[must_use]
    pub fn recording(mut self, recording: Recording) -> Self {
        self.recording = Some(recording);
        self
    }

    /// Sets the longest delay after its due time at which an attempt may start.
    #[must_use]
    pub fn expires_after(mut self, late: Duration) -> Self {
        self.expires_after = Some(late);
        self
    }

    /// Sets the duration of an external lock.
    #[must_use]
    pub fn lock_duration(mut self, duration: Duration) -> Self {
        self.lock_duration = Some(duration);
        self
    }

    /// Returns these options with the fields that `inner` sets replaced by its own.
    #[must_use]
    pub fn overlaid(&self, inner: &Self) -> Self {
        let over = inner.clone();
        Self {
            retry: over.retry.or_else(|| self.retry.clone()),
            timeout: over.timeout.or(self.timeout),
            on_timeout: over.on_timeout.or(self.on_timeout),
            rescue: over.rescue.or(self.rescue),
            when_interrupted: over.when_interrupted.or(self.when_interrupted),
            crashes_max: over.crashes_max.or(self.crashes_max),
            snoozes_max: over.snoozes_max.or(self.snoozes_max),
            recording: over.recording.or(self.recording),
            expires_after: over.expires_after.or(self.expires_after),
            lock_duration: over.lock_duration.or(self.lock_duration),
        }
    }

    /// Returns whether no field is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Fails when the options can never work.
    pub(crate) fn check(&self) -> crate::error::Result<()> {
        self.retry.as_ref().map_or(Ok(()), Retry::check)
    }
}

/// Stored form of a timeout where `null` means none, as written by releases that stored every field.
mod none_is_zero {
    use std::time::Duration;

    use serde::{Deserializer, Serializer};

    use crate::model::duration_text;

    #[expect(clippy::ref_option, reason = "the form that serde calls")]
    pub(super) fn serialize<S: Serializer>(
        timeout: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        duration_text::serialize(&timeout.filter(|timeout| !timeout.is_zero()), to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        let timeout: Option<Duration> = duration_text::deserialize(from)?;
        Ok(Some(timeout.unwrap_or(Duration::ZERO)))
    }
}

/// Consequence of a timeout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnTimeout {
    /// The attempt has failed; the retry policy decides.
    #[default]
    Retry,
    /// The message becomes a dead letter immediately.
    Fail,
}

/// Consequence of the loss of its process for a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rescue {
    /// It is due again immediately, with the attempt returned, until the crash budget is spent.
    #[default]
    AtOnce,
    /// The attempt has failed and is retried with the usual delay.
    AsFailure,
}

/// Consequence for a message whose attempt was interrupted: its process ended while it ran, or a shutdown asked
/// it to stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenInterrupted {
    /// It is run again from its start. After a crash [`Rescue`] decides when.
    #[default]
    Again,
    /// It is not run again: it becomes a dead letter with the reason
    /// [`DeadReason::Interrupted`](super::DeadReason::Interrupted), which an operator can redrive.
    ///
    /// Whether a message claimed by a crashed process had started is not known, so such a message is lost as
    /// well. A message that a shutdown finds claimed and not started is released.
    Lost,
}

impl WhenInterrupted {
    /// Returns the word in configurations and in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Again => "again",
            Self::Lost => "lost",
        }
    }
}

/// Which executions are recorded in the history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recording {
    /// Every attempt.
    #[default]
    All,
    /// Only attempts that did not succeed.
    Failures,
    /// None, for queues where history costs more than it is worth.
    None,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Options as stored by a release that stored every field.
    const COMPLETE: &str = r#"{"retry":{"attempts_max":1,"backoff":{"intervals":[]}},"timeout":null,
        "on_timeout":"retry","rescue":"at_once","crashes_max":5,"snoozes_max":1000,"recording":"all"}"#;

    #[test]
    fn complete_options_of_an_older_release_are_read_as_set() {
        let handler_options: HandlerOptions = serde_json::from_str(COMPLETE).unwrap();
        let expected = HandlerOptions::new()
            .retry(Retry::none())
            .timeout(Duration::ZERO)
            .on_timeout(OnTimeout::Retry)
            .rescue(Rescue::AtOnce)
            .crashes_max(5)
            .snoozes_max(1_000)
            .recording(Recording::All);
        assert_eq!(handler_options, expected);
        let written = serde_json::to_value(&handler_options).unwrap();
        assert_eq!(written, serde_json::from_str::<serde_json::Value>(COMPLETE).unwrap());
    }

    #[test]
    fn when_interrupted_is_stored_by_its_word() {
        for when in [WhenInterrupted::Again, WhenInterrupted::Lost] {
            let handler_options = HandlerOptions::new().when_interrupted(when);
            let text = serde_json::to_string(&handler_options).unwrap();
            assert_eq!(text, format!(r#"{{"when_interrupted":"{}"}}"#, when.as_str()));
            assert_eq!(serde_json::from_str::<HandlerOptions>(&text).unwrap(), handler_options);
        }
    }

    #[test]
    fn fields_that_are_not_set_are_not_stored() {
        let handler_options = HandlerOptions::new().expires_after(Duration::from_secs(60));
        let text = serde_json::to_string(&handler_options).unwrap();
        assert_eq!(text, r#"{"expires_after":"1m"}"#);
        assert_eq!(serde_json::from_str::<HandlerOptions>(&text).unwrap(), handler_options);
        assert_eq!(serde_json::from_str::<HandlerOptions>("{}").unwrap(), HandlerOptions::new());
    }
}
