//! Receiving from transports: what a subscription is in the engine, and the check that makes it one. The
//! worker receives, the gate holds back what has to wait for its turn, the control is what operators and
//! the breaker say, and an attempt is run with what the subscription asks for.

mod control;
mod delivery;
mod gate;
mod receiving;
mod unchecked;
mod worker;

pub(crate) use control::{Control, Switchboard, told};
use receiving::Receiving;
pub(crate) use receiving::{Subscribed, subscribe};
pub(crate) use unchecked::{Surroundings, Unchecked};
pub(crate) use worker::SubscriptionWorker;
