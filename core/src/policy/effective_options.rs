//! Effective terms: what is in force for the attempts of one message, resolved from what each layer says.
//! Field by field the innermost layer that says something wins; saying one thing never drops another.
//! What no layer says comes from the kind of the message, so that a one-time job brings its retries only
//! below the words of its handler.

use std::time::Duration;

use super::Retry;
use crate::model::{
    HandlerOptions, Message, OnTimeout, Recording, Rescue, Source, WhenInterrupted,
};

/// What applies to every attempt of one message.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectiveHandlerOptions {
    /// How often, and when again.
    pub retry: Retry,
    /// How long one attempt may take; none means that the default of the process applies.
    pub timeout: Option<Duration>,
    /// What an attempt that took too long leads to.
    pub on_timeout: OnTimeout,
    /// What the loss of its process leads to.
    pub rescue: Rescue,
    /// Whether it is run again when a crash or a shutdown has cut off an attempt.
    pub when_interrupted: WhenInterrupted,
    /// How many lost processes are forgiven before one counts as a failed attempt; 0 forgives all.
    pub crashes_max: u32,
    /// How often it may be snoozed before a snooze counts as a failed attempt.
    pub snoozes_max: u32,
    /// Which executions are kept as history.
    pub recording: Recording,
    /// How late after its planned time an attempt may still begin; none means however late.
    pub expires_after: Option<Duration>,
    /// How long an external lock is asked for; none means the usual length.
    pub lock_duration: Option<Duration>,
}

impl Default for EffectiveHandlerOptions {
    fn default() -> Self {
        Self {
            retry: Retry::default(),
            timeout: None,
            on_timeout: OnTimeout::Retry,
            rescue: Rescue::AtOnce,
            when_interrupted: WhenInterrupted::Again,
            crashes_max: 5,
            snoozes_max: 1_000,
            recording: Recording::All,
            expires_after: None,
            lock_duration: None,
        }
    }
}

impl EffectiveHandlerOptions {
    /// Returns the defaults of a recurring job: its next occurrence is its retry.
    pub fn recurring() -> Self {
        Self { retry: Retry::none(), ..Self::default() }
    }

    /// Returns the defaults of a one-time job: three retries in proportion to how far ahead it was planned,
    /// and a lost process spends one of them.
    pub fn deferred() -> Self {
        Self { retry: Retry::proportional(), rescue: Rescue::AsFailure, ..Self::default() }
    }

    fn overlaid(self, inner: &HandlerOptions) -> Self {
        let timeout = match inner.timeout {
            Some(timeout) => Some(timeout).filter(|timeout| !timeout.is_zero()),
            None => self.timeout,
        };
        Self {
            retry: inner.retry.clone().unwrap_or(self.retry),
            timeout,
            on_timeout: inner.on_timeout.unwrap_or(self.on_timeout),
            rescue: inner.rescue.unwrap_or(self.rescue),
            when_interrupted: inner.when_interrupted.unwrap_or(self.when_interrupted),
            crashes_max: inner.crashes_max.unwrap_or(self.crashes_max),
            snoozes_max: inner.snoozes_max.unwrap_or(self.snoozes_max),
            recording: inner.recording.unwrap_or(self.recording),
            expires_after: inner.expires_after.or(self.expires_after),
            lock_duration: inner.lock_duration.or(self.lock_duration),
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
    pub fn defaults(self) -> EffectiveHandlerOptions {
        match self {
            Self::Published => EffectiveHandlerOptions::default(),
            Self::RecurringRun => EffectiveHandlerOptions::recurring(),
            Self::OneTimeJob => EffectiveHandlerOptions::deferred(),
        }
    }
}

/// Returns the terms in force for a message of a kind, given what the layers say, the outermost first.
pub fn effective_options<'a>(
    kind: MessageKind,
    layers: impl IntoIterator<Item = &'a HandlerOptions>,
) -> EffectiveHandlerOptions {
    layers.into_iter().fold(kind.defaults(), EffectiveHandlerOptions::overlaid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn each_field_comes_from_the_innermost_layer_that_says_something() {
        let handler = HandlerOptions::new().retry(Retry::none()).timeout(MINUTE).crashes_max(2);
        let message = HandlerOptions::new().expires_after(MINUTE * 5).crashes_max(3);
        let handler_options = effective_options(MessageKind::Published, [&handler, &message]);
        assert_eq!(handler_options.retry, Retry::none());
        assert_eq!(
            (handler_options.timeout, handler_options.expires_after),
            (Some(MINUTE), Some(MINUTE * 5))
        );
        assert_eq!((handler_options.crashes_max, handler_options.snoozes_max), (3, 1_000));
    }

    #[test]
    fn a_kind_gives_defaults_below_every_layer() {
        let silent = HandlerOptions::new();
        let once = effective_options(MessageKind::OneTimeJob, [&silent]);
        assert_eq!(once, EffectiveHandlerOptions::deferred());
        let handler = HandlerOptions::new().retry(Retry::none());
        let once = effective_options(MessageKind::OneTimeJob, [&handler, &silent]);
        assert_eq!((once.retry, once.rescue), (Retry::none(), Rescue::AsFailure));
        let run = effective_options(MessageKind::RecurringRun, []);
        assert_eq!(run.retry, Retry::none());
    }

    #[test]
    fn a_timeout_of_zero_takes_the_one_outside_away() {
        let (handler, call) =
            (HandlerOptions::new().timeout(MINUTE), HandlerOptions::new().timeout(Duration::ZERO));
        assert_eq!(effective_options(MessageKind::Published, [&handler, &call]).timeout, None);
    }

    fn any_terms() -> impl Strategy<Value = HandlerOptions> {
        let lengths = || proptest::option::of((0..9u64).prop_map(Duration::from_secs));
        let counts = || proptest::option::of(0..9u32);
        let retry = proptest::option::of((1..5u32).prop_map(|n| Retry::default().attempts(n)));
        let picks =
            proptest::option::of(prop_oneof![Just(OnTimeout::Retry), Just(OnTimeout::Fail)]);
        (retry, lengths(), picks, counts(), counts(), lengths(), lengths()).prop_map(
            |(
                retry,
                timeout,
                on_timeout,
                crashes_max,
                snoozes_max,
                expires_after,
                lock_duration,
            )| {
                let rescue = crashes_max.map(|_| Rescue::AsFailure);
                let recording = snoozes_max.map(|_| Recording::Failures);
                let when_interrupted = on_timeout.map(|_| WhenInterrupted::Lost);
                HandlerOptions {
                    retry,
                    timeout,
                    on_timeout,
                    rescue,
                    when_interrupted,
                    crashes_max,
                    snoozes_max,
                    recording,
                    expires_after,
                    lock_duration,
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
            let each = effective_options(kind, [&a, &b, &c]);
            prop_assert_eq!(&effective_options(kind, [&a, &b.overlaid(&c)]), &each);
            prop_assert_eq!(&effective_options(kind, [&a.overlaid(&b), &c]), &each);
        }
    }
}
