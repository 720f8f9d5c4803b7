//! Punctual's transport over Azure Service Bus, by AMQP 1.0: a topic for each topic, a subscription for each
//! group, or queues. The broker delays, counts and dead-letters; AMQP cannot create entities on it.
//!
//! Start with [`ServiceBusTransport::builder`]. The README of this crate describes the entities it needs, the
//! guarantees and what was never tested.

// The README is compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod address;
mod builder;
mod connection;
mod connection_loss;
mod consumer;
mod error;
mod in_flight;
mod management;
mod names;
mod producer;
mod reader;
mod receipt;
mod receiver_link;
mod renewal;
mod request_link;
mod settings;
mod settler;
mod token;
mod wire;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use punctual::Result;
use punctual::backend::transport::prefetch::prefetch_channel;
use punctual::backend::transport::{
    AcknowledgeMode, AttemptCount, Capabilities, Consumer, Delay, Ordering, OutgoingMessage,
    Subscription, Transport,
};
use punctual::jiff::Timestamp;
use tokio::sync::{mpsc, oneshot};

pub use crate::builder::ServiceBusBuilder;
pub use crate::names::Entities;

use crate::consumer::ServiceBusConsumer;
use crate::in_flight::InFlight;
use crate::producer::Producer;
use crate::reader::Reader;
use crate::receipt::ConsumerContext;
use crate::receiver_link::ReceiverLink;
use crate::settings::Settings;

/// Most in-flight deliveries of a consumer.
const PREFETCH_MAX: usize = 2_048;
/// Duration of a lock until the broker has reported one.
const LOCK_DURATION: Duration = Duration::from_secs(30);

/// Transport over Azure Service Bus.
pub struct ServiceBusTransport {
    settings: Arc<Settings>,
    producer: Arc<Producer>,
}

impl ServiceBusTransport {
    /// Returns a builder for a connection string of the portal.
    pub fn builder(address: impl Into<String>) -> ServiceBusBuilder {
        ServiceBusBuilder::new(address.into())
    }
}

impl std::fmt::Debug for ServiceBusTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ServiceBusTransport").field(&self.settings.endpoint).finish()
    }
}

#[async_trait]
impl Transport for ServiceBusTransport {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            publish_delay: Delay::Any,
            requeue_delay: Delay::Any,
            dead_letter: true,
            // Requeued messages come later, and several consumers overtake each other.
            ordering: Ordering::None,
            fan_out: self.settings.entities == Entities::Topics,
            attempts: AttemptCount::Counted,
            acknowledge: AcknowledgeMode::Single,
            durable: true,
            payload_max: Some(self.settings.payload_max),
        }
    }

    async fn publish(&self, batch: Vec<OutgoingMessage>, now: Timestamp) -> Result<()> {
        self.producer.publish(&batch, now).await
    }

    async fn subscribe(&self, subscription: Subscription) -> Result<Box<dyn Consumer>> {
        let Subscription { topic, group, prefetch } = subscription;
        names::check_group(&group)?;
        let settings = self.settings.clone();
        let source = names::source(&settings.entity(&topic)?, &group, settings.entities);
        let only = (settings.entities == Entities::Topics).then(|| group.clone());
        let context = ConsumerContext {
            settings: settings.clone(),
            producer: self.producer.clone(),
            group: only,
        };
        let (command_sender, commands) = mpsc::unbounded_channel();
        let (stopped_sender, stopped) = oneshot::channel();
        let prefetch = prefetch.clamp(1, PREFETCH_MAX);
        let (deliveries, prefetched) = prefetch_channel(prefetch);
        let reader = Reader {
            context: Arc::new(context),
            topic,
            group,
            source,
            prefetch,
            in_flight: InFlight::default(),
            deliveries,
            commands,
            command_sender: command_sender.downgrade(),
            stopped: Some(stopped_sender),
            link_number: Arc::new(AtomicU64::new(0)),
            lock_duration: Arc::new(Mutex::new(LOCK_DURATION)),
            waiting: Vec::new(),
        };
        let first =
            ReceiverLink::attach(&reader).await.map_err(|error| error.during("subscribe"))?;
        let (link_number, in_flight) = (reader.link_number.clone(), reader.in_flight.clone());
        tokio::spawn(reader.run(first));
        Ok(Box::new(ServiceBusConsumer {
            clock: settings.clock.clone(),
            prefetched,
            commands: command_sender,
            stopped: Some(stopped),
            link_number,
            in_flight,
        }))
    }
}
