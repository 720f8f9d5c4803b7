//! What a process was put together from, for people who ask why something does not run.

use std::sync::Arc;

use super::Punctual;
use crate::clock::Clock;
use crate::model::{Message, Topic, TransportName};
use crate::transport::Transport;

impl Punctual {
    /// The topics that have a handler here, in order; none when this process handles nothing.
    pub fn handled_topics(&self) -> Vec<Topic> {
        let process = self.process();
        if !process.options.handling {
            return Vec::new();
        }
        let mut topics: Vec<Topic> = process.registry.topics().cloned().collect();
        topics.sort();
        topics
    }

    /// Returns how many attempts a message may have: as it says itself, else as its handler here says, else
    /// as is usual; none without a limit. A handler in another process may say otherwise.
    pub fn attempts_max(&self, message: &Message) -> Option<u32> {
        self.process().handler_options(message).retry.attempts_max
    }

    /// The time as this process knows it.
    pub fn clock(&self) -> Arc<dyn Clock> {
        self.process().clock.clone()
    }

    /// The transports, by name.
    pub fn transports(&self) -> Vec<(TransportName, Arc<dyn Transport>)> {
        let transports = self.process().transports.iter();
        transports.map(|(name, transport)| (name.clone(), transport.clone())).collect()
    }

    /// The transport that carries a topic when its sender names none; none is the storage.
    pub fn route(&self, topic: &Topic) -> Option<TransportName> {
        self.process().outbound.route(topic).cloned()
    }
}
