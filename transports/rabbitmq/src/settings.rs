//! What one transport was told: where the broker is, how its things are called, and how long to wait.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use lapin::uri::AMQPUri;
use punctual::clock::{add, within};
use punctual::wire::Wrapping;
use punctual::{Clock, Error, Result};

use crate::fault::{fault, silent};

/// How the broker keeps the messages of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueKind {
    /// Replicated and counted: the broker tells how often a message was delivered.
    #[default]
    Quorum,
    /// On one node; the broker only tells whether a message was delivered before, and delays are left to
    /// the storage.
    Classic,
}

pub(crate) struct Settings {
    pub(crate) uri: AMQPUri,
    pub(crate) prefix: String,
    pub(crate) queues: QueueKind,
    pub(crate) declare: bool,
    pub(crate) delay_max: Duration,
    pub(crate) payload_max: usize,
    pub(crate) patience: Duration,
    pub(crate) wrapping: Wrapping,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Settings {
    /// The broker for people: host and port, never who we are there.
    pub(crate) fn place(&self) -> String {
        format!("{}:{}", self.uri.authority.host, self.uri.authority.port)
    }

    /// Whether the broker itself counts how often a message was delivered.
    pub(crate) fn is_counted(&self) -> bool {
        self.queues == QueueKind::Quorum
    }

    /// Talks to the broker, within the patience.
    pub(crate) async fn talk<T>(
        &self,
        doing: impl fmt::Display,
        work: impl Future<Output = lapin::Result<T>>,
    ) -> Result<T> {
        let until = add(self.clock.now(), self.patience);
        match within(&*self.clock, until, work).await {
            Some(Ok(value)) => Ok(value),
            Some(Err(error)) => Err(fault(&self.place(), doing, error)),
            None => Err(silent(&self.place(), doing)),
        }
    }
}

/// Reads an address; what is wrong is said without showing it, because it may hold a password.
pub(crate) fn address(text: &str) -> Result<AMQPUri> {
    let form =
        "an address of RabbitMQ is amqp://user:password@host:5672/vhost, or amqps:// with TLS";
    let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
    if scheme != "amqp" && scheme != "amqps" {
        return Err(Error::invalid(format!("the address begins with {scheme:?}; {form}")));
    }
    text.parse().map_err(|_| Error::invalid(format!("the address cannot be read; {form}")))
}
