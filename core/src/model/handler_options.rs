//! Handler options: what one layer says about the attempts of a message, such as how often it may be tried and how
//! long one attempt may take. A handler, a queue, a definition and a single call each give one; a field that
//! is not set leaves the word to the layer outside. They travel with the message, so that any node can judge
//! it. Which value is in force is decided by [`effective_options`](crate::policy::effective_options).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::policy::Retry;

/// What one layer says about every attempt of a message; what is not set is left to the layers outside.
///
/// ```
/// use std::time::Duration;
/// use punctual::{Retry, model::HandlerOptions};
///
/// let terms = HandlerOptions::new().retry(Retry::none()).timeout(Duration::from_secs(20));
/// assert_eq!(terms.crashes_max, None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HandlerOptions {
    /// How often, and when again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// How long one attempt may take; zero takes the limit of the layers outside away, so that the default
    /// of the process applies.
    #[serde(with = "none_is_zero", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// What an attempt that took too long leads to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_timeout: Option<OnTimeout>,
    /// What the loss of its process leads to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rescue: Option<Rescue>,
    /// Whether it is run again when a crash or a shutdown has cut off an attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when_interrupted: Option<WhenInterrupted>,
    /// How many lost processes are forgiven before one counts as a failed attempt; 0 forgives all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crashes_max: Option<u32>,
    /// How often it may be snoozed before a snooze counts as a failed attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snoozes_max: Option<u32>,
    /// Which executions are kept as history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recording: Option<Recording>,
    /// How late after its planned time an attempt may still begin.
    #[serde(with = "super::duration_text", skip_serializing_if = "Option::is_none")]
    pub expires_after: Option<Duration>,
    /// How long an external lock is asked for.
    #[serde(with = "super::duration_text", skip_serializing_if = "Option::is_none")]
    pub lock_duration: Option<Duration>,
}

impl HandlerOptions {
    /// Creates terms that say nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how often a failed attempt is tried again, and when.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Sets how long one attempt may take; zero takes the limit of the layers outside away.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets what an attempt that took too long leads to.
    #[must_use]
    pub fn on_timeout(mut self, on_timeout: OnTimeout) -> Self {
        self.on_timeout = Some(on_timeout);
        self
    }

    /// Sets what the loss of its process leads to.
    #[must_use]
    pub fn rescue(mut self, rescue: Rescue) -> Self {
        self.rescue = Some(rescue);
        self
    }

    /// Sets whether it is run again when a crash or a shutdown has cut off an attempt.
    #[must_use]
    pub fn when_interrupted(mut self, when_interrupted: WhenInterrupted) -> Self {
        self.when_interrupted = Some(when_interrupted);
        self
    }

    /// Sets how many lost processes are forgiven; 0 forgives all.
    #[must_use]
    pub fn crashes_max(mut self, count: u32) -> Self {
        self.crashes_max = Some(count);
        self
    }

    /// Sets how many snoozes are free.
    #[must_use]
    pub fn snoozes_max(mut self, count: u32) -> Self {
        self.snoozes_max = Some(count);
        self
    }

    /// Sets which executions are kept as history.
    #[must_use]
    pub fn recording(mut self, recording: Recording) -> Self {
        self.recording = Some(recording);
        self
    }

    /// Sets how late after its planned time an attempt may still begin.
    #[must_use]
    pub fn expires_after(mut self, late: Duration) -> Self {
        self.expires_after = Some(late);
        self
    }

    /// Sets how long an external lock is asked for.
    #[must_use]
    pub fn lock_duration(mut self, length: Duration) -> Self {
        self.lock_duration = Some(length);
        self
    }

    /// Returns these terms with the fields that `inner` sets replaced by its own.
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

    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Refuses what can never work.
    pub(crate) fn check(&self) -> crate::error::Result<()> {
        self.retry.as_ref().map_or(Ok(()), Retry::check)
    }
}

/// A timeout where "none" is said by `null`, as releases wrote it that stored every field.
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

/// What becomes of a message whose attempt was cut off: its process ended while it ran, or a shutdown asked it
/// to stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenInterrupted {
    /// It is run again from its start. After a crash [`Rescue`] says when.
    #[default]
    Again,
    /// It is not run again: it becomes a dead letter with the reason
    /// [`DeadReason::Interrupted`](super::DeadReason::Interrupted), which a person can redrive.
    ///
    /// No process can tell whether work that was taken by a process that crashed had begun, so such work is
    /// lost as well. What a shutdown finds taken and not begun is given back.
    Lost,
}

impl WhenInterrupted {
    /// The word in configurations and in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Again => "again",
            Self::Lost => "lost",
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What a release stored that knew complete terms only.
    const COMPLETE: &str = r#"{"retry":{"attempts_max":1,"backoff":{"intervals":[]}},"timeout":null,
        "on_timeout":"retry","rescue":"at_once","crashes_max":5,"snoozes_max":1000,"recording":"all"}"#;

    #[test]
    fn complete_terms_of_an_older_release_are_read_as_said() {
        let handler_options: HandlerOptions = serde_json::from_str(COMPLETE).unwrap();
        let said = HandlerOptions::new()
            .retry(Retry::none())
            .timeout(Duration::ZERO)
            .on_timeout(OnTimeout::Retry)
            .rescue(Rescue::AtOnce)
            .crashes_max(5)
            .snoozes_max(1_000)
            .recording(Recording::All);
        assert_eq!(handler_options, said);
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
    fn what_is_not_said_is_not_stored() {
        let handler_options = HandlerOptions::new().expires_after(Duration::from_secs(60));
        let text = serde_json::to_string(&handler_options).unwrap();
        assert_eq!(text, r#"{"expires_after":"1m"}"#);
        assert_eq!(serde_json::from_str::<HandlerOptions>(&text).unwrap(), handler_options);
        assert_eq!(serde_json::from_str::<HandlerOptions>("{}").unwrap(), HandlerOptions::new());
    }
}
