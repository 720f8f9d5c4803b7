//! Effective terms: what is in force for the attempts of one message, resolved from what each layer says.
//! Field by field the innermost layer that says something wins; saying one thing never drops another.
//! What no layer says comes from the kind of the message, so that a one-time job brings its retries only
//! below the words of its handler.

use std::time::Duration;

use super::Retry;
use crate::model::{Message, OnTimeout, Recording, Rescue, Source, Terms};

/// What applies to every attempt of one message.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectiveTerms {
    /// How often, and when again.
    pub retry: Retry,
    /// How long one attempt may take; none means that the default of the process applies.
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
    pub expires_after: Option<Duration>,
    /// How long an external lock is asked for; none means the usual length.
    pub lock_length: Option<Duration>,
}

impl Default for EffectiveTerms {
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

impl EffectiveTerms {
    /// Returns the defaults of a recurring job: its next occurrence is its retry.
    pub fn recurring() -> Self {
        Self { retry: Retry::none(), ..Self::default() }
    }

    /// Returns the defaults of a one-time job: three retries in proportion to how far ahead it was planned,
    /// and a lost process spends one of them.
    pub fn deferred() -> Self {
        Self { retry: Retry::proportional(), rescue: Rescue::AsFailure, ..Self::default() }
    }

    fn overlaid(self, inner: &Terms) -> Self {
        let timeout = match inner.timeout {
            Some(timeout) => Some(timeout).filter(|timeout| !timeout.is_zero()),
            None => self.timeout,
        };
        Self {
            retry: inner.retry.clone().unwrap_or(self.retry),
            timeout,
            on_timeout: inner.on_timeout.unwrap_or(self.on_timeout),
            rescue: inner.rescue.unwrap_or(self.rescue),
            crashes_max: inner.crashes_max.unwrap_or(self.crashes_max),
            snoozes_max: inner.snoozes_max.unwrap_or(self.snoozes_max),
            recording: inner.recording.unwrap_or(self.recording),
            expires_after: inner.expires_after.or(self.expires_after),
            lock_length: inner.lock_length.or(self.lock_length),
        }
    }
}

/// What a message is, as far as its defaults differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// A message that was published.
    Published,
    /// A run of a recurring job.
    RecurringRun,
    /// A one-time job.
    OneTimeJob,
}

impl MessageKind {
    /// Returns the kind of a message; sent again by an operator it stays what it was.
    pub fn of(message: &Message) -> Self {
        match (message.source, &message.occurrence) {
            (Source::Deferred, _) => Self::OneTimeJob,
            (Source::Redriven, Some(run)) if run.schedule.is_none() => Self::OneTimeJob,
            (_, Some(_)) => Self::RecurringRun,
            (_, None) => Self::Published,
        }
    }

    /// Returns what is in force where no layer says anything.
    pub fn defaults(self) -> EffectiveTerms {
        match self {
            Self::Published => EffectiveTerms::default(),
            Self::RecurringRun => EffectiveTerms::recurring(),
            Self::OneTimeJob => EffectiveTerms::deferred(),
        }
    }
}

/// Returns the terms in force for a message of a kind, given what the layers say, the outermost first.
pub fn effective_terms<'a>(
    kind: MessageKind,
    layers: impl IntoIterator<Item = &'a Terms>,
) -> EffectiveTerms {
    layers.into_iter().fold(kind.defaults(), EffectiveTerms::overlaid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn each_field_comes_from_the_innermost_layer_that_says_something() {
        let handler = Terms::new().retry(Retry::none()).timeout(MINUTE).crashes_max(2);
        let message = Terms::new().expires_after(MINUTE * 5).crashes_max(3);
        let terms = effective_terms(MessageKind::Published, [&handler, &message]);
        assert_eq!(terms.retry, Retry::none());
        assert_eq!((terms.timeout, terms.expires_after), (Some(MINUTE), Some(MINUTE * 5)));
        assert_eq!((terms.crashes_max, terms.snoozes_max), (3, 1_000));
    }

    #[test]
    fn a_kind_gives_defaults_below_every_layer() {
        let silent = Terms::new();
        let once = effective_terms(MessageKind::OneTimeJob, [&silent]);
        assert_eq!(once, EffectiveTerms::deferred());
        let handler = Terms::new().retry(Retry::none());
        let once = effective_terms(MessageKind::OneTimeJob, [&handler, &silent]);
        assert_eq!((once.retry, once.rescue), (Retry::none(), Rescue::AsFailure));
        let run = effective_terms(MessageKind::RecurringRun, []);
        assert_eq!(run.retry, Retry::none());
    }

    #[test]
    fn a_timeout_of_zero_takes_the_one_outside_away() {
        let (handler, call) = (Terms::new().timeout(MINUTE), Terms::new().timeout(Duration::ZERO));
        assert_eq!(effective_terms(MessageKind::Published, [&handler, &call]).timeout, None);
    }

    fn any_terms() -> impl Strategy<Value = Terms> {
        let lengths = || proptest::option::of((0..9u64).prop_map(Duration::from_secs));
        let counts = || proptest::option::of(0..9u32);
        let retry = proptest::option::of((1..5u32).prop_map(|n| Retry::default().attempts(n)));
        let picks =
            proptest::option::of(prop_oneof![Just(OnTimeout::Retry), Just(OnTimeout::Fail)]);
        (retry, lengths(), picks, counts(), counts(), lengths(), lengths()).prop_map(
            |(retry, timeout, on_timeout, crashes_max, snoozes_max, expires_after, lock_length)| {
                let rescue = crashes_max.map(|_| Rescue::AsFailure);
                let recording = snoozes_max.map(|_| Recording::Failures);
                Terms {
                    retry,
                    timeout,
                    on_timeout,
                    rescue,
                    crashes_max,
                    snoozes_max,
                    recording,
                    expires_after,
                    lock_length,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn layers_merged_first_are_the_same_as_layers_one_by_one(
            a in any_terms(), b in any_terms(), c in any_terms()
        ) {
            let kind = MessageKind::OneTimeJob;
            let each = effective_terms(kind, [&a, &b, &c]);
            prop_assert_eq!(&effective_terms(kind, [&a, &b.overlaid(&c)]), &each);
            prop_assert_eq!(&effective_terms(kind, [&a.overlaid(&b), &c]), &each);
        }
    }
}
