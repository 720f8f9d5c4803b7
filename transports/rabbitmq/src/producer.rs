//! Producer: publishes a batch without waiting in between and returns when the broker has confirmed all of it.
//! While it is sent a batch has a channel of its own, so that a returned message is known to be of this batch,
//! and a broken channel affects no other batch.

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

use crate::connection::BrokerConnection;
use crate::error::{map_error, timed_out};
use crate::settings::Settings;

/// Most messages of a batch that wait for their confirmation.
const IN_FLIGHT_MAX: usize = 1_024;
/// Most batches that are sent concurrently; others wait.
const CHANNELS_MAX: usize = 64;
/// Most idle channels that are kept for later batches.
const IDLE_MAX: usize = 16;

/// Message with its exchange and routing key.
#[derive(Clone)]
pub(crate) struct Publication {
    /// Exchange; empty for the default exchange, which routes to the queue named by the routing key.
    pub(crate) exchange: ShortString,
    /// Name of the queue; empty for all groups of a topic.
    pub(crate) routing_key: ShortString,
    pub(crate) properties: BasicProperties,
    pub(crate) body: Bytes,
}

/// Publisher with its connection and its pool of channels.
pub(crate) struct Producer {
    settings: Arc<Settings>,
    pub(crate) connection: BrokerConnection,
    idle: Mutex<Vec<Channel>>,
    batch_limit: Semaphore,
}

impl Producer {
    pub(crate) fn new(settings: Arc<Settings>) -> Self {
        let connection = BrokerConnection::new(settings.clone(), "publishing");
        Self {
            settings,
            connection,
            idle: Mutex::default(),
            batch_limit: Semaphore::new(CHANNELS_MAX),
        }
    }

    /// Sends a batch in order; returns when the broker has confirmed all of it.
    pub(crate) async fn send(&self, publications: Vec<Publication>) -> Result<()> {
        let until = add(self.settings.clock.now(), self.settings.timeout);
        let sent = within(&*self.settings.clock, until, self.send_all(publications)).await;
        sent.unwrap_or_else(|| Err(timed_out(&self.settings.endpoint(), "publishing")))
    }

    async fn send_all(&self, publications: Vec<Publication>) -> Result<()> {
        let closed = |_| Error::internal("the semaphore of the publishing channels is closed");
        let _permit = self.batch_limit.acquire().await.map_err(closed)?;
        let channel = self.channel().await?;
        let mut waiting = publications.into_iter();
        let mut in_flight = FuturesOrdered::new();
        loop {
            let room = IN_FLIGHT_MAX - in_flight.len();
            in_flight.extend(
                waiting.by_ref().take(room).map(|publication| confirmed(&channel, publication)),
            );
            let Some(confirmation) = in_flight.next().await else { break };
            self.check_confirmation(confirmation)?;
        }
        drop(in_flight);
        self.return_channel(channel);
        Ok(())
    }

    async fn channel(&self) -> Result<Channel> {
        let idle = std::iter::from_fn(|| self.lock_idle().pop());
        if let Some(channel) = idle.take(IDLE_MAX).find(|channel| channel.status().connected()) {
            return Ok(channel);
        }
        let channel = self.connection.channel().await?;
        let enabling = channel.confirm_select(ConfirmSelectOptions::default());
        self.settings.call("enabling publisher confirms", enabling).await?;
        Ok(channel)
    }

    fn return_channel(&self, channel: Channel) {
        let mut idle = self.lock_idle();
        if idle.len() < IDLE_MAX {
            idle.push(channel);
        }
    }

    fn lock_idle(&self) -> std::sync::MutexGuard<'_, Vec<Channel>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_confirmation(&self, confirmation: lapin::Result<Confirmation>) -> Result<()> {
        let endpoint = self.settings.endpoint();
        match confirmation {
            Ok(Confirmation::Ack(None)) => Ok(()),
            Ok(Confirmation::Ack(Some(returned)) | Confirmation::Nack(Some(returned))) => {
                Err(self.unroutable(&returned))
            }
            Ok(Confirmation::Nack(None)) => Err(Error::unavailable(format!(
                "publishing: RabbitMQ at {endpoint} could not store the message; its queue may be full or \
                without a majority of its nodes"
            ))),
            Ok(Confirmation::NotRequested) => {
                Err(Error::internal("a message was published without publisher confirms"))
            }
            Err(error) => Err(map_error(&endpoint, "publishing", error)),
        }
    }

    fn unroutable(&self, returned: &BasicReturnMessage) -> Error {
        let exchange = returned.exchange.as_str();
        if exchange.is_empty() {
            return Error::not_found(format!(
                "the queue {} does not exist on RabbitMQ at {}; create it, or let the transport declare it",
                returned.routing_key,
                self.settings.endpoint()
            ));
        }
        let topic = exchange.strip_prefix(self.settings.prefix.as_str()).unwrap_or(exchange);
        Error::not_found(format!(
            "the topic {topic:?} has no subscribed group, so RabbitMQ has no queue for its messages; \
            subscribe a group first, or send to one group by name"
        ))
        .with("topic", topic)
    }
}

async fn confirmed(channel: &Channel, publication: Publication) -> lapin::Result<Confirmation> {
    let Publication { exchange, routing_key, properties, body } = publication;
    let options = BasicPublishOptions { mandatory: true, immediate: false };
    channel.basic_publish(exchange, routing_key, options, &body, properties).await?.await
}
