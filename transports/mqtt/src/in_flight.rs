//! In-flight messages of a consumer, and how each is settled. The broker identifies them by packet identifier for as
//! long as the session lives, across connections. When the session is lost, or the broker restarts its numbering, the
//! identifiers are invalid, and acknowledging an old one could acknowledge another message: an identifier is trusted
//! only together with the content received under it.
//!
//! Not the set of the transport kit, which is for deliveries that are renewed: MQTT renews nothing, and a message stays
//! here after it was settled until its acknowledgement can be sent.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use punctual::jiff::Timestamp;
use punctual::model::{Message, MessageId, Topic};
use punctual::{Error, Result};
use tokio::sync::mpsc;

use crate::codec::{Publish, Version};
use crate::connection::Connection;
use crate::error::{ConnectionError, map_error};
use crate::names::Names;
use crate::wire::{Publication, read};

/// How many acknowledgements are remembered, in case a breaking connection loses them.
const ACKED_MAX: usize = 1_024;
/// Limit of `QoS 0` messages in flight: nothing else stops their sender from sending more.
const UNCONFIRMED_MAX: usize = 10_000;

/// Shared by a consumer and its receipts.
pub(crate) struct InFlight {
    pub(crate) names: Names,
    pub(crate) topic: Topic,
    pub(crate) group: String,
    pub(crate) client: String,
    pub(crate) version: Version,
    /// Host and port of the broker, for texts.
    pub(crate) server: String,
    deliveries: mpsc::UnboundedSender<Result<InFlightDelivery>>,
    has_error: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    connection: Option<Arc<Connection>>,
    /// Counts messages, to distinguish those without an identity or with a reused packet identifier.
    count: u64,
    messages: HashMap<u16, InFlightMessage>,
    /// The last acknowledged messages: the broker does not confirm that it received an acknowledgement.
    acked: VecDeque<(u16, MessageId)>,
    /// `QoS 0` messages in flight, which need no acknowledgement.
    unconfirmed: usize,
}

/// A message that the broker expects an acknowledgement for.
struct InFlightMessage {
    count: u64,
    /// Set if it was settled without a connection; it is acknowledged when the broker sends it again.
    is_settled: bool,
    /// As received, to recognize a redelivery: a restarted broker may reuse the identifier for another message.
    publish: Publish,
}

impl InFlightMessage {
    fn is_same(&self, publish: &Publish) -> bool {
        let known = &self.publish;
        publish.duplicate
            && (&known.topic, &known.payload) == (&publish.topic, &publish.payload)
            && known.properties == publish.properties
    }
}

/// Identifies a delivery; the packet identifier is zero when it needs no acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeliveryId {
    count: u64,
    id: u16,
}

/// A message in flight.
pub(crate) struct InFlightDelivery {
    pub(crate) delivery_id: DeliveryId,
    pub(crate) message: Arc<Message>,
    pub(crate) attempt: u32,
    pub(crate) poison: Option<String>,
}

/// Identity of the consumer.
pub(crate) struct ConsumerIdentity {
    pub(crate) names: Names,
    pub(crate) topic: Topic,
    pub(crate) group: String,
    pub(crate) client: String,
    pub(crate) version: Version,
    pub(crate) server: String,
}

impl InFlight {
    pub(crate) fn new(
        identity: ConsumerIdentity,
        deliveries: mpsc::UnboundedSender<Result<InFlightDelivery>>,
    ) -> Self {
        let ConsumerIdentity { names, topic, group, client, version, server } = identity;
        let (has_error, inner) = (AtomicBool::new(false), Mutex::default());
        Self { names, topic, group, client, version, server, deliveries, has_error, inner }
    }

    /// Stores a new connection, and forgets everything in flight if the broker has lost the session.
    pub(crate) fn connected(&self, connection: Arc<Connection>) {
        let mut inner = self.inner();
        if !connection.connack.session_present {
            inner.messages.clear();
            inner.acked.clear();
        }
        inner.connection = Some(connection);
    }

    /// Removes the lost connection.
    pub(crate) fn disconnected(&self) {
        self.inner().connection = None;
    }

    /// Receives a message and passes it on, unless it is in flight already, settled already, or for another group.
    pub(crate) fn take(&self, publish: Publish, now: Timestamp) {
        let Some(delivery_id) = self.inner().register(&publish) else { return };
        let position = format_args!("{}/{}", self.client, delivery_id.count);
        let received = read(&publish, &self.topic, position, now);
        let message = Arc::new(received.message);
        let is_known =
            publish.duplicate && self.inner().acked.contains(&(delivery_id.id, message.id));
        let is_ours = received.group.as_deref().is_none_or(|group| group == self.group);
        if delivery_id.id > 0 {
            let message = InFlightMessage { count: delivery_id.count, is_settled: false, publish };
            self.inner().messages.insert(delivery_id.id, message);
        }
        if is_known || !is_ours {
            return self.settle(delivery_id, message.id);
        }
        let attempt = received.attempt.saturating_add(1);
        self.deliver(InFlightDelivery { delivery_id, message, attempt, poison: received.poison });
    }

    /// Passes a message to the consumer. If the consumer is gone, the message stays in its session.
    pub(crate) fn deliver(&self, delivery: InFlightDelivery) {
        let _ = self.deliveries.send(Ok(delivery));
    }

    /// Reports an error to the consumer.
    pub(crate) fn report_error(&self, error: &ConnectionError) {
        // One error is enough until the consumer has returned it.
        if !self.has_error.swap(true, Ordering::Relaxed) {
            let _ = self.deliveries.send(Err(map_error(error, &self.server).during("receive")));
        }
    }

    /// Marks the reported error as returned.
    pub(crate) fn error_returned(&self) {
        self.has_error.store(false, Ordering::Relaxed);
    }

    /// Settles a message.
    pub(crate) fn settle(&self, delivery_id: DeliveryId, message: MessageId) {
        let mut inner = self.inner();
        if delivery_id.id == 0 {
            inner.unconfirmed = inner.unconfirmed.saturating_sub(1);
        } else if inner
            .messages
            .get(&delivery_id.id)
            .is_some_and(|message| message.count == delivery_id.count)
        {
            inner.acknowledge(delivery_id.id);
            if inner.acked.len() == ACKED_MAX {
                inner.acked.pop_front();
            }
            inner.acked.push_back((delivery_id.id, message));
        }
    }

    /// Publishes on the consumer's own connection; returns whether a subscription matched, as far as the broker
    /// reports it.
    pub(crate) async fn publish(&self, publication: Publication) -> Result<bool> {
        let connection = self.inner().connection.clone();
        let Some(connection) = connection else {
            return Err(Error::unavailable(format!(
                "there is no connection to the MQTT broker at {}; the message is delivered again",
                self.server
            )));
        };
        let unmatched = connection.publish(&[publication]).await;
        unmatched.map(|count| count == 0).map_err(|error| map_error(&error, &self.server))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Registers a received message; returns none when there is nothing to pass on.
    fn register(&mut self, publish: &Publish) -> Option<DeliveryId> {
        let id = publish.id;
        if let Some(message) = self.messages.get(&id).filter(|message| message.is_same(publish)) {
            if message.is_settled {
                self.acknowledge(id);
            }
            return None;
        }
        if id == 0 {
            if self.unconfirmed == UNCONFIRMED_MAX {
                tracing::warn!("a QoS 0 message was dropped: too many are in flight");
                return None;
            }
            self.unconfirmed += 1;
        }
        self.count += 1;
        Some(DeliveryId { count: self.count, id })
    }

    fn acknowledge(&mut self, id: u16) {
        let is_sent = self.connection.as_ref().is_some_and(|connection| connection.ack(id));
        if is_sent {
            self.messages.remove(&id);
        } else if let Some(message) = self.messages.get_mut(&id) {
            message.is_settled = true;
        }
    }
}
