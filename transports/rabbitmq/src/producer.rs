//! Publishing: a whole batch is on its way at once, and it is done when the broker has confirmed all of it.
//! A batch has a channel for itself while it is sent, so that a message which the broker returns is known
//! to be of this batch, and a channel that breaks breaks for nobody else.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use lapin::message::BasicReturnMessage;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::ShortString;
use lapin::{BasicProperties, Channel, Confirmation};
use punctual::clock::{add, within};
use punctual::{Error, Result};
use tokio::sync::Semaphore;

use crate::fault::{fault, silent};
use crate::link::Link;
use crate::settings::Settings;

/// The most messages of a batch that are on their way at once.
const IN_FLIGHT_MAX: usize = 1_024;
/// The most batches that are sent at once; others wait.
const CHANNELS_MAX: usize = 64;
/// The most channels that are kept for the next batch.
const IDLE_MAX: usize = 16;

/// A message with its address.
pub(crate) struct Parcel {
    /// Where to; empty for straight to a queue.
    pub(crate) exchange: ShortString,
    /// The queue, unless it is for all groups of a topic.
    pub(crate) routing_key: ShortString,
    pub(crate) properties: BasicProperties,
    pub(crate) body: Bytes,
}

pub(crate) struct Producer {
    settings: Arc<Settings>,
    pub(crate) link: Link,
    idle: Mutex<Vec<Channel>>,
    turns: Semaphore,
}

impl Producer {
    pub(crate) fn new(settings: Arc<Settings>) -> Self {
        let link = Link::new(settings.clone(), "publishing");
        Self { settings, link, idle: Mutex::default(), turns: Semaphore::new(CHANNELS_MAX) }
    }

    /// Sends a batch in order; `Ok` when the broker has all of it in its queues.
    pub(crate) async fn send(&self, parcels: Vec<Parcel>) -> Result<()> {
        let until = add(self.settings.clock.now(), self.settings.patience);
        let sent = within(&*self.settings.clock, until, self.send_all(parcels)).await;
        sent.unwrap_or_else(|| Err(silent(&self.settings.place(), "publishing")))
    }

    async fn send_all(&self, parcels: Vec<Parcel>) -> Result<()> {
        let closed = |_| Error::internal("the turns of the channels are closed");
        let _turn = self.turns.acquire().await.map_err(closed)?;
        let channel = self.channel().await?;
        let mut waiting = parcels.into_iter();
        let mut flying = FuturesOrdered::new();
        loop {
            let room = IN_FLIGHT_MAX - flying.len();
            flying.extend(waiting.by_ref().take(room).map(|parcel| confirmed(&channel, parcel)));
            let Some(answer) = flying.next().await else { break };
            self.judge(answer)?;
        }
        drop(flying);
        self.keep(channel);
        Ok(())
    }

    async fn channel(&self) -> Result<Channel> {
        let idle = std::iter::from_fn(|| self.lock_idle().pop());
        if let Some(channel) = idle.take(IDLE_MAX).find(|channel| channel.status().connected()) {
            return Ok(channel);
        }
        let channel = self.link.channel().await?;
        let asking = channel.confirm_select(ConfirmSelectOptions::default());
        self.settings.talk("asking for confirmations", asking).await?;
        Ok(channel)
    }

    fn keep(&self, channel: Channel) {
        let mut idle = self.lock_idle();
        if idle.len() < IDLE_MAX {
            idle.push(channel);
        }
    }

    fn lock_idle(&self) -> std::sync::MutexGuard<'_, Vec<Channel>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn judge(&self, answer: lapin::Result<Confirmation>) -> Result<()> {
        let place = self.settings.place();
        match answer {
            Ok(Confirmation::Ack(None)) => Ok(()),
            Ok(Confirmation::Ack(Some(returned)) | Confirmation::Nack(Some(returned))) => {
                Err(self.unroutable(&returned))
            }
            Ok(Confirmation::Nack(None)) => Err(Error::unavailable(format!(
                "publishing: RabbitMQ at {place} could not keep the message; its queue may be full or \
                 without a majority of its nodes"
            ))),
            Ok(Confirmation::NotRequested) => {
                Err(Error::internal("a message was published without asking for a confirmation"))
            }
            Err(error) => Err(fault(&place, "publishing", error)),
        }
    }

    fn unroutable(&self, returned: &BasicReturnMessage) -> Error {
        let exchange = returned.exchange.as_str();
        if exchange.is_empty() {
            return Error::not_found(format!(
                "the queue {} is not on RabbitMQ at {}; create it, or let the transport declare it",
                returned.routing_key,
                self.settings.place()
            ));
        }
        let topic = exchange.strip_prefix(self.settings.prefix.as_str()).unwrap_or(exchange);
        Error::not_found(format!(
            "nobody has subscribed to the topic {topic:?}, so RabbitMQ has no queue to keep its messages \
             in; subscribe a group first, or send to one group by name"
        ))
        .with("topic", topic)
    }
}

async fn confirmed(channel: &Channel, parcel: Parcel) -> lapin::Result<Confirmation> {
    let Parcel { exchange, routing_key, properties, body } = parcel;
    let options = BasicPublishOptions { mandatory: true, immediate: false };
    channel.basic_publish(exchange, routing_key, options, &body, properties).await?.await
}
