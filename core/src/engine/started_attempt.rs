//! Started attempt: a delivery with its context, options and in-flight guard, from its start to its settlement.

use std::sync::Arc;

use super::attempt::{AttemptIdentity, context};
use super::in_flight::InFlightGuard;
use super::{Process, Registration};
use crate::handler::Context;
use crate::policy::EffectiveHandlerOptions;
use crate::transport::Delivery;

/// An attempt that was started and is not settled yet.
pub(crate) struct StartedAttempt {
    pub(crate) delivery: Delivery,
    pub(crate) handler_options: Arc<EffectiveHandlerOptions>,
    pub(crate) context: Context,
    pub(crate) in_flight_guard: InFlightGuard,
    pub(crate) extras: Extras,
}

/// State that a subscription adds to an attempt.
#[derive(Default)]
pub(crate) struct Extras {
    /// The subscription's own handler.
    pub(crate) registration: Option<Arc<Registration>>,
    /// Number of inline retries so far.
    pub(crate) inline: u32,
    /// Whether it was acknowledged before it was handled, so that it cannot be put back.
    pub(crate) acknowledged: bool,
}

impl StartedAttempt {
    /// Builds the attempt of a delivery and adds it to those in flight.
    pub(super) fn new(
        process: &Arc<Process>,
        delivery: Delivery,
        handler_options: Arc<EffectiveHandlerOptions>,
        identity: AttemptIdentity,
        extras: Extras,
    ) -> Self {
        let context = context(process, &delivery, &handler_options, identity);
        let in_flight_guard = process.runner.in_flight.enter(&delivery.receipt, &context);
        Self { delivery, handler_options, context, in_flight_guard, extras }
    }

    /// Returns the same delivery as a new attempt that starts now.
    pub(super) fn restarted(self, process: &Arc<Process>, identity: AttemptIdentity) -> Self {
        let Self { delivery, handler_options, context: old, extras, in_flight_guard } = self;
        let new = Self::new(process, delivery, handler_options, identity, extras);
        if let Some(until) = old.lease_until().filter(|_| new.context.lease_until().is_some()) {
            new.context.set_lease_until(until);
        }
        // The new guard is taken before the old one is dropped, so that shutdown always sees the delivery.
        drop(in_flight_guard);
        new
    }
}
