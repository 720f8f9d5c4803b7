//! Receipt: settles one delivery. A requeued or rejected message is published first, confirmed, and then
//! acknowledged: a crash in between repeats it and loses nothing. A dropped one is delivered again from memory or
//! from its session.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual::backend::transport::limits::check_delay;
use punctual::backend::transport::{Acknowledge, Delay, OutgoingMessage, Rejection};
use punctual::backend::wire::Wire;
use punctual::{Error, Result};
use tokio::sync::OwnedSemaphorePermit;

use crate::in_flight::{InFlight, InFlightDelivery};
use crate::wire::Publication;

/// Settles one delivery.
pub(crate) struct MqttReceipt {
    pub(crate) in_flight: Arc<InFlight>,
    pub(crate) delivery: Option<InFlightDelivery>,
    /// Permit of the prefetch, released when the delivery is settled.
    pub(crate) _room: OwnedSemaphorePermit,
}

impl MqttReceipt {
    fn settle(&mut self) {
        if let Some(delivery) = self.delivery.take() {
            self.in_flight.settle(delivery.delivery_id, delivery.message.id);
        }
    }

    /// Publishes a replacement; returns whether a subscription matched.
    async fn publish(&self, name: &str, wire: Wire) -> Result<bool> {
        let publication = Publication::new(Arc::from(name), wire, self.in_flight.version)?;
        self.in_flight.publish(Publication { needs_subscriber: true, ..publication }).await
    }

    fn outgoing(&self) -> Result<OutgoingMessage> {
        let delivery = self.delivery.as_ref().ok_or_else(settled)?;
        Ok(OutgoingMessage {
            message: delivery.message.clone(),
            delay: Duration::ZERO,
            attempt: delivery.attempt,
            group: Some(self.in_flight.group.clone()),
        })
    }
}

#[async_trait]
impl Acknowledge for MqttReceipt {
    async fn ack(mut self: Box<Self>) -> Result<()> {
        self.settle();
        Ok(())
    }

    async fn requeue(mut self: Box<Self>, delay: Duration) -> Result<()> {
        let outgoing = self.outgoing()?;
        check_delay("MQTT", Delay::None, outgoing.message.id, delay)?;
        let wire = Wire::of(&outgoing)?;
        if !self
            .publish(&self.in_flight.names.group_topic, wire)
            .await
            .map_err(|error| error.during("requeue"))?
        {
            return Err(Error::unavailable(format!(
                "the group {:?} has no session on the MQTT broker at {}; the message is delivered again",
                self.in_flight.group, self.in_flight.server
            ))
            .during("requeue"));
        }
        self.settle();
        Ok(())
    }

    async fn reject(mut self: Box<Self>, rejection: &Rejection) -> Result<()> {
        let message = self.outgoing()?.message;
        let names = &self.in_flight.names;
        let name = if rejection.is_invalid() { &names.invalid } else { &names.dead };
        let wire = Wire::dead(&message, rejection)?;
        if !self.publish(name, wire).await.map_err(|error| error.during("reject"))? {
            tracing::warn!(
                message = %message.id,
                name,
                "the broker discarded a dead letter, because its topic has no subscriber"
            );
        }
        self.settle();
        Ok(())
    }
}

impl Drop for MqttReceipt {
    fn drop(&mut self) {
        if let Some(delivery) = self.delivery.take() {
            // MQTT has no negative acknowledgement, so the consumer delivers it again from memory, and the session
            // does after the consumer is gone.
            let attempt = delivery.attempt.saturating_add(1);
            self.in_flight.deliver(InFlightDelivery { attempt, ..delivery });
        }
    }
}

fn settled() -> Error {
    Error::internal("the delivery is settled already")
}
