//! Introspection of a process: its topics, options, clock and transports, for example to explain why a message does
//! not run.

use std::sync::Arc;

use super::Punctual;
use crate::clock::Clock;
use crate::model::{Message, Topic, TransportName};
use crate::transport::Transport;

impl Punctual {
    /// Returns the topics with a handler in this process, in order; none when it handles no messages.
    pub fn handled_topics(&self) -> Vec<Topic> {
        self.admin().this_process().topics.unwrap_or_default()
    }

    /// Returns the largest number of attempts of a message, from its own options, else those of its handler in
    /// this process, else the default; `None` without a limit. Another process may have other options.
    pub fn attempts_max(&self, message: &Message) -> Option<u32> {
        self.process().handler_options(message).retry.attempts_max
    }

    /// Returns the clock of this process.
    pub fn clock(&self) -> Arc<dyn Clock> {
        self.process().env.clock.clone()
    }

    /// Returns the transports, by name.
    pub fn transports(&self) -> Vec<(TransportName, Arc<dyn Transport>)> {
        let transports = self.process().sender.transports.iter();
        transports.map(|(name, transport)| (name.clone(), transport.clone())).collect()
    }

    /// Returns the transport of a topic when its sender names none; `None` is the storage.
    pub fn route(&self, topic: &Topic) -> Option<TransportName> {
        self.process().sender.outbound.route(topic).cloned()
    }
}
