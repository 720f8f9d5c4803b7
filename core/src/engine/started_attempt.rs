//! Started attempt: a received message with its context, options and in-flight guard, from its start to its settlement.

use std::sync::Arc;

use super::attempt::{AttemptIdentity, context};
use super::in_flight::InFlightGuard;
use super::receipt::ReceivedMessage;
use super::{Process, Registration};
use crate::handler::Context;
use crate::policy::EffectiveHandlerOptions;

/// An attempt that was started and is not settled yet.
pub(crate) struct StartedAttempt {
    pub(crate) received: ReceivedMessage,
    pub(crate) handler_options: Arc<EffectiveHandlerOptions>,
    pub(crate) context: Context,
    pub(crate) in_flight_guard: InFlightGuard,
    /// The subscription's own handler.
    pub(crate) registration: Option<Arc<Registration>>,
    /// Number of inline retries before this attempt.
    pub(crate) inline_retries: u32,
}

impl StartedAttempt {
    /// Builds the attempt of a message and adds it to those in flight.
    pub(super) fn new(
        process: &Arc<Process>,
        received: ReceivedMessage,
        handler_options: Arc<EffectiveHandlerOptions>,
        identity: AttemptIdentity,
    ) -> Self {
        let context = context(process, &received, &handler_options, identity);
        let in_flight_guard = process.runner.in_flight.enter(received.lease.clone(), &context);
        Self {
            received,
            handler_options,
            context,
            in_flight_guard,
            registration: None,
            inline_retries: 0,
        }
    }

    /// Returns the same message as a new attempt that starts now.
    pub(super) fn restarted(self, process: &Arc<Process>, identity: AttemptIdentity) -> Self {
        let Self { received, handler_options, context: old, in_flight_guard, .. } = self;
        let new = Self {
            registration: self.registration,
            inline_retries: self.inline_retries,
            ..Self::new(process, received, handler_options, identity)
        };
        if let Some(until) = old.lease_until().filter(|_| new.context.lease_until().is_some()) {
            new.context.set_lease_until(until);
        }
        // The new guard is taken before the old one is dropped, so that shutdown always sees the message.
        drop(in_flight_guard);
        new
    }
}
