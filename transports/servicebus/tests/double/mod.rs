//! Test double of Service Bus, in process, as far as its documentation describes the real one: topics with
//! subscriptions and queues, scheduled messages, locks that expire and are renewed, delivery counts, dead
//! letters, and required tokens. It speaks AMQP 1.0 by the same library as the transport, so it proves nothing
//! about frames.

mod broker;
mod nodes;
mod port;
mod serve;

pub(crate) use self::broker::{AmqpMessage, note, properties};
pub(crate) use self::port::Double;
