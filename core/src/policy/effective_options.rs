//! Effective options: decides from the options that each layer sets which ones are in force for the attempts of
//! one message. Field by field the innermost layer that sets it wins; setting one field never drops another.
//! Fields that no layer sets come from the kind of the message, so that the retries of a one-time job apply
//! only where its handler sets none.

use std::time::Duration;

use crate::model::{
    HandlerOptions, MessageKind, OnTimeout, Recording, Rescue, Retry, WhenInterrupted,
};

/// Options in force for every attempt of one message.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectiveHandlerOptions {
    /// Number of attempts, and the waits between them.
    pub retry: Retry,
    /// Timeout of one attempt; with none the default of the process applies.
    pub timeout: Option<Duration>,
    /// Consequence of a timeout.
    pub on_timeout: OnTimeout,
    /// Consequence of the loss of its process.
    pub rescue: Rescue,
    /// Whether it is run again after a crash or a shutdown has interrupted an attempt.
    pub when_interrupted: WhenInterrupted,
    /// Number of crashes before one counts as a failed attempt; 0 means no limit.
    pub crashes_max: u32,
    /// Number of snoozes before one counts as a failed attempt.
    pub snoozes_max: u32,
    /// Which executions are recorded in the history.
    pub recording: Recording,
    /// Longest delay after its due time at which an attempt may start; none means no limit.
    pub expires_after: Option<Duration>,
    /// Duration of an external lock; none means the default.
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

    /// Returns the defaults of a one-time job: three retries in proportion to its original delay, and a lost
    /// process spends one of them.
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

impl EffectiveHandlerOptions {
    /// Returns the options in force for a kind of message where no layer sets any.
    pub fn of_kind(kind: MessageKind) -> Self {
        match kind {
            MessageKind::Published => Self::default(),
            MessageKind::RecurringRun => Self::recurring(),
            MessageKind::OneTimeJob => Self::deferred(),
        }
    }
}

/// Returns the options in force for a message of a kind, from those of each layer, the outermost first.
pub fn effective_options<'a>(
    kind: MessageKind,
    layers: impl IntoIterator<Item = &'a HandlerOptions>,
) -> EffectiveHandlerOptions {
    layers
        .into_iter()
        .fold(EffectiveHandlerOptions::of_kind(kind), EffectiveHandlerOptions::overlaid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn each_field_comes_from_the_innermost_layer_that_sets_it() {
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
        let unset = HandlerOptions::new();
        let once = effective_options(MessageKind::OneTimeJob, [&unset]);
        assert_eq!(once, EffectiveHandlerOptions::deferred());
        let handler = HandlerOptions::new().retry(Retry::none());
        let once = effective_options(MessageKind::OneTimeJob, [&handler, &unset]);
        assert_eq!((once.retry, once.rescue), (Retry::none(), Rescue::AsFailure));
        let run = effective_options(MessageKind::RecurringRun, []);
        assert_eq!(run.retry, Retry::none());
    }

    #[test]
    fn a_timeout_of_zero_removes_that_of_the_outer_layers() {
        let (handler, call) =
            (HandlerOptions::new().timeout(MINUTE), HandlerOptions::new().timeout(Duration::ZERO));
        assert_eq!(effective_options(MessageKind::Published, [&handler, &call]).timeout, None);
    }

    fn any_options() -> impl Strategy<Value = HandlerOptions> {
        let durations = || proptest::option::of((0..9u64).prop_map(Duration::from_secs));
        let counts = || proptest::option::of(0..9u32);
        let retry = proptest::option::of((1..5u32).prop_map(|n| Retry::default().attempts(n)));
        let picks =
            proptest::option::of(prop_oneof![Just(OnTimeout::Retry), Just(OnTimeout::Fail)]);
        (retry, durations(), picks, counts(), counts(), durations(), durations()).prop_map(
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
            a in any_options(), b in any_options(), c in any_options()
        ) {
            let kind = MessageKind::OneTimeJob;
            let each = effective_options(kind, [&a, &b, &c]);
            prop_assert_eq!(&effective_options(kind, [&a, &b.overlaid(&c)]), &each);
            prop_assert_eq!(&effective_options(kind, [&a.overlaid(&b), &c]), &each);
        }
    }
}
