//! Receipt of a delivery. What has to be stored elsewhere first is published there and confirmed, and then the
//! original is acknowledged: a crash in between repeats a message and never loses one. A dropped receipt
//! requeues its message at once.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use lapin::Acker;
use lapin::options::{BasicAckOptions, BasicNackOptions};
use lapin::types::ShortString;
use punctual::Result;
use punctual::backend::transport::limits::check_delay;
use punctual::backend::transport::{Acknowledge, OutgoingMessage, Rejection};
use punctual::backend::wire::Wire;
use punctual::model::{Message, Topic};

use crate::TransportState;
use crate::error::delivery_lost;
use crate::names::Names;
use crate::producer::Publication;
use crate::wire::properties;

const REQUEUE: BasicNackOptions = BasicNackOptions { multiple: false, requeue: true };

/// Shared by all deliveries of a consumer.
pub(crate) struct ConsumerContext {
    pub(crate) shared: Arc<TransportState>,
    pub(crate) topic: Topic,
    pub(crate) group: String,
    pub(crate) names: Names,
}

/// Right to settle one delivery.
pub(crate) struct RabbitmqReceipt {
    context: Arc<ConsumerContext>,
    acker: Acker,
    message: Arc<Message>,
    attempt: u32,
    settled: bool,
}

impl RabbitmqReceipt {
    pub(crate) fn new(
        context: Arc<ConsumerContext>,
        acker: Acker,
        message: Arc<Message>,
        attempt: u32,
    ) -> Self {
        Self { context, acker, message, attempt, settled: false }
    }

    pub(crate) async fn acknowledge(&mut self) -> Result<()> {
        self.settled = true;
        self.settle("acknowledging", self.acker.ack(BasicAckOptions::default())).await
    }

    async fn requeue_now(&mut self) -> Result<()> {
        self.settled = true;
        self.settle("requeueing", self.acker.nack(REQUEUE)).await
    }

    /// Waits until the client has sent the settlement, but no longer than the channel of the delivery exists.
    async fn settle(
        &self,
        doing: &str,
        settling: impl Future<Output = lapin::Result<bool>>,
    ) -> Result<()> {
        let settings = &self.context.shared.settings;
        let is_lost = || self.acker.poisoned();
        if settings.call_while_connected(doing, is_lost, settling).await? {
            return Ok(());
        }
        Err(delivery_lost(&settings.endpoint(), doing))
    }

    /// Returns the message for its group with the count it had before this delivery.
    pub(crate) fn as_undelivered(&self) -> Result<Publication> {
        self.publication(self.attempt.saturating_sub(1))
    }

    /// Returns the message for its group with the number of attempts made.
    fn publication(&self, attempt: u32) -> Result<Publication> {
        let outgoing = OutgoingMessage {
            message: self.message.clone(),
            delay: Duration::ZERO,
            attempt,
            group: Some(self.context.group.clone()),
        };
        let wire = Wire::of(&outgoing)?;
        let properties = properties(&wire, 0)?;
        let (exchange, routing_key) = (ShortString::default(), self.context.names.queue.clone());
        Ok(Publication { exchange, routing_key, properties, body: wire.body })
    }
}

#[async_trait]
impl Acknowledge for RabbitmqReceipt {
    async fn ack(mut self: Box<Self>) -> Result<()> {
        self.acknowledge().await
    }

    async fn requeue(mut self: Box<Self>, delay: Duration) -> Result<()> {
        let context = self.context.clone();
        let shared = &context.shared;
        check_delay("RabbitMQ", shared.capabilities().requeue_delay, self.message.id, delay)?;
        if !delay.is_zero() {
            shared.send_delayed(self.publication(self.attempt)?, delay).await?;
        } else if shared.settings.counts_deliveries() {
            return self.requeue_now().await;
        } else {
            // The broker would not count this delivery, so the message carries the count.
            shared.send(vec![self.publication(self.attempt)?]).await?;
        }
        self.acknowledge().await
    }

    async fn reject(mut self: Box<Self>, rejection: &Rejection) -> Result<()> {
        let context = self.context.clone();
        let ConsumerContext { shared, names, .. } = &*context;
        let dead_letters = if rejection.is_invalid() { &names.invalid } else { &names.dead };
        shared.topology.ensure_dead_letters(&shared.producer.connection, dead_letters).await?;
        let wire = Wire::dead(&self.message, rejection)?;
        let properties = properties(&wire, 0)?;
        let (exchange, routing_key) = (ShortString::default(), dead_letters.clone());
        shared
            .send(vec![Publication { exchange, routing_key, properties, body: wire.body }])
            .await?;
        self.acknowledge().await
    }
}

impl Drop for RabbitmqReceipt {
    fn drop(&mut self) {
        if !self.settled {
            // One poll is enough to send it; the result is not awaited.
            let _ = self.acker.nack(REQUEUE).now_or_never();
        }
    }
}
