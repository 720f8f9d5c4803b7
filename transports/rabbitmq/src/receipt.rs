//! Settling a delivery. What has to be somewhere else first is published there and confirmed, and then the
//! original is acknowledged: a crash in between repeats a message and never loses one. A receipt that is
//! dropped gives its message back at once.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use lapin::Acker;
use lapin::options::{BasicAckOptions, BasicNackOptions};
use lapin::types::ShortString;
use punctual::clock::add;
use punctual::model::Message;
use punctual::transport::{Acknowledge, Outgoing, Rejection};
use punctual::wire::Wire;
use punctual::{Error, Result};

use crate::consumer::Origin;
use crate::delay::length_ms;
use crate::fault::lost;
use crate::producer::Parcel;
use crate::topology::{DELAY_PAUSE, DELAY_TRIES};
use crate::wire::properties;

const BACK: BasicNackOptions = BasicNackOptions { multiple: false, requeue: true };

pub(crate) struct RabbitmqReceipt {
    origin: Arc<Origin>,
    acker: Acker,
    message: Arc<Message>,
    attempt: u32,
    settled: bool,
}

impl RabbitmqReceipt {
    pub(crate) fn new(
        origin: Arc<Origin>,
        acker: Acker,
        message: Arc<Message>,
        attempt: u32,
    ) -> Self {
        Self { origin, acker, message, attempt, settled: false }
    }

    pub(crate) async fn acknowledge(&mut self) -> Result<()> {
        self.settled = true;
        self.settle("acknowledging", self.acker.ack(BasicAckOptions::default())).await
    }

    async fn give_back(&mut self) -> Result<()> {
        self.settled = true;
        self.settle("requeueing", self.acker.nack(BACK)).await
    }

    /// Waits until the client has sent it, but no longer than the channel of the delivery exists.
    async fn settle(
        &self,
        doing: &str,
        settling: impl Future<Output = lapin::Result<bool>>,
    ) -> Result<()> {
        let settings = &self.origin.shared.settings;
        let is_lost = || self.acker.poisoned();
        if settings.talk_until_lost(doing, is_lost, settling).await? {
            return Ok(());
        }
        Err(lost(&settings.place(), doing))
    }

    /// The same message for the same group as if it had never been delivered.
    pub(crate) fn unspent(&self) -> Result<Parcel> {
        self.again(ShortString::default(), self.attempt.saturating_sub(1))
    }

    /// The same message for the same group, with the attempts it has behind it.
    fn again(&self, exchange: ShortString, attempt: u32) -> Result<Parcel> {
        let outgoing = Outgoing {
            message: self.message.clone(),
            delay: Duration::ZERO,
            attempt,
            group: Some(self.origin.group.clone()),
        };
        let wire = Wire::of(&outgoing)?;
        let properties = properties(&wire, 0)?;
        let routing_key = self.origin.names.queue.clone();
        Ok(Parcel { exchange, routing_key, properties, body: wire.body })
    }
}

#[async_trait]
impl Acknowledge for RabbitmqReceipt {
    async fn ack(mut self: Box<Self>) -> Result<()> {
        self.acknowledge().await
    }

    async fn requeue(mut self: Box<Self>, delay: Duration) -> Result<()> {
        let origin = self.origin.clone();
        let shared = &origin.shared;
        let reach = shared.capabilities().requeue_delay;
        if !reach.reaches(delay) {
            return Err(Error::unsupported(format!(
                "a delivery cannot be put back for {delay:?}: this transport reaches {reach:?}; hold it \
                 in the storage"
            )));
        }
        let exchange = if !delay.is_zero() {
            shared.topology.delay(&shared.producer.link, length_ms(delay)).await?
        } else if shared.settings.is_counted() {
            return self.give_back().await;
        } else {
            // The broker would not count this one, so it takes its count along.
            ShortString::default()
        };
        let clock = &shared.settings.clock;
        let (mut tries, until) = (1, add(clock.now(), shared.settings.patience));
        while let Err(error) = shared.send(vec![self.again(exchange.clone(), self.attempt)?]).await
        {
            // A queue that another process makes at this moment may not keep anything yet.
            let is_over = tries >= DELAY_TRIES || clock.now() >= until;
            if delay.is_zero() || !error.is_temporary() || is_over {
                return Err(error);
            }
            clock.sleep_until(add(clock.now(), DELAY_PAUSE)).await;
            tries += 1;
        }
        self.acknowledge().await
    }

    async fn reject(mut self: Box<Self>, rejection: &Rejection) -> Result<()> {
        let origin = self.origin.clone();
        let Origin { shared, names, .. } = &*origin;
        let shelf = if rejection.is_invalid() { &names.invalid } else { &names.dead };
        shared.topology.shelf(&shared.producer.link, shelf).await?;
        let wire = Wire::dead(&self.message, rejection)?;
        let properties = properties(&wire, 0)?;
        let (exchange, routing_key) = (ShortString::default(), shelf.clone());
        shared.send(vec![Parcel { exchange, routing_key, properties, body: wire.body }]).await?;
        self.acknowledge().await
    }
}

impl Drop for RabbitmqReceipt {
    fn drop(&mut self) {
        if !self.settled {
            // Asking once is enough to have it sent; nobody waits for it.
            let _ = self.acker.nack(BACK).now_or_never();
        }
    }
}
