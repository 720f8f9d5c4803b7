//! A Service Bus of our own, in process, as far as its documentation tells how the real one behaves: topics
//! with subscriptions and queues, scheduled messages, locks that run out and are renewed, delivery counts,
//! dead letters, and tokens without which nothing opens. It speaks AMQP 1.0 by the same library as the
//! transport, so it proves nothing about frames.

mod broker;
mod nodes;
mod port;
mod serve;

pub(crate) use self::broker::{Letter, note, properties};
pub(crate) use self::port::Double;
