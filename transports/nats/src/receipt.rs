//! Receipt: settles one delivery. An acknowledgement is sent without waiting for a response: if it is lost, the
//! broker delivers again, as at-least-once permits. A requeue and a rejection wait for the confirmation, because
//! losing those would make a message early or duplicate a dead letter.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use punctual::Result;
use punctual::backend::transport::{Acknowledge, Rejection};
use punctual::model::{Message, Topic};

use crate::connection::Connection;
use crate::in_flight::{ACK, InFlightDelivery, NAK};
use crate::producer::Producer;

/// Shared by all deliveries of a consumer.
pub(crate) struct ConsumerContext {
    pub(crate) connection: Arc<Connection>,
    pub(crate) producer: Arc<Producer>,
    pub(crate) topic: Topic,
    pub(crate) group: String,
    pub(crate) stream: String,
}

/// Settles one delivery.
pub(crate) struct NatsReceipt {
    pub(crate) context: Arc<ConsumerContext>,
    pub(crate) message: Arc<Message>,
    /// Sequence number in the stream.
    pub(crate) sequence: u64,
    pub(crate) delivery: InFlightDelivery,
}

#[async_trait]
impl Acknowledge for NatsReceipt {
    async fn ack(self: Box<Self>) -> Result<()> {
        self.context.connection.publish(self.delivery.reply().clone(), ACK).await?;
        self.delivery.settle();
        Ok(())
    }

    async fn requeue(self: Box<Self>, delay: Duration) -> Result<()> {
        let reply = self.delivery.detach().await;
        self.context.connection.request(reply, nak(delay)).await
    }

    async fn reject(self: Box<Self>, rejection: &Rejection) -> Result<()> {
        let ConsumerContext { connection, producer, group, stream, .. } = &*self.context;
        let from = format!("{stream}/{}/{group}", self.sequence);
        producer.publish_dead_letter(&self.message, rejection, &from).await?;
        connection.request(self.delivery.reply().clone(), ACK).await?;
        self.delivery.settle();
        Ok(())
    }
}

/// Returns a negative acknowledgement with a delay, in nanoseconds.
fn nak(delay: Duration) -> Bytes {
    if delay.is_zero() {
        return NAK;
    }
    // The broker uses signed numbers; a longer delay becomes 292 years.
    let delay = i64::try_from(delay.as_nanos()).unwrap_or(i64::MAX);
    Bytes::from(format!("-NAK {{\"delay\": {delay}}}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: D-15
    #[test]
    fn a_delay_of_zero_is_omitted_and_the_longest_is_a_signed_number() {
        assert_eq!(nak(Duration::ZERO), NAK);
        assert_eq!(nak(Duration::from_millis(1500)), "-NAK {\"delay\": 1500000000}");
        assert_eq!(nak(Duration::MAX), format!("-NAK {{\"delay\": {}}}", i64::MAX));
    }
}
