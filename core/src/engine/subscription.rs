//! Subscriptions in the engine: receiving from transports. `request` checks what was configured, `worker`
//! receives, `limiter` delays messages by key and rate, and `control` holds pauses and the circuit breaker.

mod capped_options;
mod control;
mod limiter;
mod name;
mod request;
mod spec;
mod worker;

pub(crate) use control::{Control, Controls, emit_change};
pub use name::{SubscriptionName, SubscriptionStatus};
pub(crate) use request::{SubscriptionContext, SubscriptionRequest};
use spec::ReceiveOptions;
pub(crate) use spec::{SubscriptionSpec, subscribe};
pub(crate) use worker::SubscriptionWorker;
