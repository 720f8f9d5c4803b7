//! Punctual's transport over Azure Service Bus, by AMQP 1.0: a topic for each topic, a subscription for each
//! group, or queues. The broker delays, counts and buries; it cannot be told to create anything.
//!
//! [`ServiceBusTransport::builder`] is where to begin. The README beside this crate says what must be on the
//! broker, what it promises, and what was never tried.

// The README is compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod address;
mod attached;
mod builder;
mod consumer;
mod dialogue;
mod entity;
mod fault;
mod hold;
mod keeper;
mod line;
mod manage;
mod producer;
mod reader;
mod receipt;
mod settle;
mod token;
mod wire;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use punctual::Result;
use punctual::jiff::Timestamp;
use punctual::transport::{
    AcknowledgeMode, AttemptCount, Capabilities, Consumer, Delay, Ordering, Outgoing, Subscription,
    Transport,
};
use tokio::sync::{Notify, mpsc, oneshot, watch};

pub use crate::builder::ServiceBusBuilder;
pub use crate::entity::Entities;

use crate::attached::Attached;
use crate::consumer::ServiceBusConsumer;
use crate::hold::Holds;
use crate::line::Settings;
use crate::producer::Producer;
use crate::reader::Reader;
use crate::receipt::Desk;

/// The most deliveries that a consumer has in hand.
const PREFETCH_MAX: usize = 2_048;
/// How long a lock lasts before the broker has told.
const LOCK_LENGTH: Duration = Duration::from_secs(30);

/// A transport over Azure Service Bus.
pub struct ServiceBusTransport {
    settings: Arc<Settings>,
    producer: Arc<Producer>,
}

impl ServiceBusTransport {
    /// Begins with a connection string, as the portal gives it.
    pub fn builder(address: impl Into<String>) -> ServiceBusBuilder {
        ServiceBusBuilder::new(address.into())
    }
}

impl std::fmt::Debug for ServiceBusTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ServiceBusTransport").field(&self.settings.place).finish()
    }
}

#[async_trait]
impl Transport for ServiceBusTransport {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            publish_delay: Delay::Any,
            requeue_delay: Delay::Any,
            dead_letter: true,
            // What was put back comes later, and consumers overtake each other.
            ordering: Ordering::None,
            fan_out: self.settings.entities == Entities::Topics,
            attempts: AttemptCount::Counted,
            acknowledge: AcknowledgeMode::Single,
            durable: true,
            payload_max: Some(self.settings.payload_max),
        }
    }

    async fn publish(&self, batch: Vec<Outgoing>, now: Timestamp) -> Result<()> {
        self.producer.publish(&batch, now).await
    }

    async fn subscribe(&self, subscription: Subscription) -> Result<Box<dyn Consumer>> {
        let Subscription { topic, group, prefetch } = subscription;
        entity::check_group(&group)?;
        let settings = self.settings.clone();
        let source = entity::source(&settings.entity(&topic)?, &group, settings.entities);
        let only = (settings.entities == Entities::Topics).then(|| group.clone());
        let desk =
            Desk { settings: settings.clone(), producer: self.producer.clone(), group: only };
        let (give, taken) = mpsc::unbounded_channel();
        let (calls, called) = mpsc::unbounded_channel();
        let (stop, stopping) = watch::channel(false);
        let (tell_stopped, stopped) = oneshot::channel();
        let prefetch = prefetch.clamp(1, PREFETCH_MAX);
        let reader = Reader {
            desk: Arc::new(desk),
            topic,
            group,
            source,
            prefetch,
            holds: Arc::new(Holds::default()),
            taken: give,
            calls: called,
            caller: calls.downgrade(),
            asked: Arc::new(Notify::new()),
            stop: stopping,
            stopped: Some(tell_stopped),
            link: Arc::new(AtomicU64::new(0)),
            lock_length: Arc::new(Mutex::new(LOCK_LENGTH)),
            waiting: Vec::new(),
        };
        let first = Attached::of(&reader).await.map_err(|error| error.during("subscribe"))?;
        let (asked, link) = (reader.asked.clone(), reader.link.clone());
        let holds = reader.holds.clone();
        tokio::spawn(reader.run(first));
        Ok(Box::new(ServiceBusConsumer {
            clock: settings.clock.clone(),
            taken,
            calls,
            asked,
            stop,
            stopped: Some(stopped),
            link,
            holds,
            prefetch,
            trouble: None,
            is_resting: false,
        }))
    }
}
