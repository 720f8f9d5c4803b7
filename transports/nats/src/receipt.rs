//! Settling one delivery. Acknowledgements are sent without waiting for an answer: one that gets lost makes
//! the broker deliver again, which is what at least once means. A requeue and a rejection wait for the
//! broker's word, because losing those would make a message early or a dead letter double.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use punctual::Result;
use punctual::model::{Message, Topic};
use punctual::transport::{Acknowledge, Rejection};

use crate::held::{ACK, Hold, NAK};
use crate::link::Link;
use crate::producer::Producer;

/// What all deliveries of a consumer have in common.
pub(crate) struct Lane {
    pub(crate) link: Arc<Link>,
    pub(crate) producer: Arc<Producer>,
    pub(crate) topic: Topic,
    pub(crate) group: String,
    pub(crate) stream: String,
}

/// Settles one delivery.
pub(crate) struct NatsReceipt {
    pub(crate) lane: Arc<Lane>,
    pub(crate) message: Arc<Message>,
    /// Its number in the stream.
    pub(crate) sequence: u64,
    pub(crate) hold: Hold,
}

#[async_trait]
impl Acknowledge for NatsReceipt {
    async fn ack(self: Box<Self>) -> Result<()> {
        self.lane.link.post(self.hold.reply().clone(), ACK).await?;
        self.hold.settle();
        Ok(())
    }

    async fn requeue(self: Box<Self>, delay: Duration) -> Result<()> {
        let reply = self.hold.let_go().await;
        self.lane.link.ask(reply, nak(delay)).await
    }

    async fn reject(self: Box<Self>, rejection: &Rejection) -> Result<()> {
        let Lane { link, producer, group, stream, .. } = &*self.lane;
        let from = format!("{stream}/{}/{group}", self.sequence);
        producer.bury(&self.message, rejection, &from).await?;
        link.ask(self.hold.reply().clone(), ACK).await?;
        self.hold.settle();
        Ok(())
    }
}

/// "Deliver it again", with how much later in nanoseconds.
fn nak(delay: Duration) -> Bytes {
    if delay.is_zero() {
        return NAK;
    }
    // The broker counts in signed numbers; 292 years are as good as any longer time.
    let delay = i64::try_from(delay.as_nanos()).unwrap_or(i64::MAX);
    Bytes::from(format!("-NAK {{\"delay\": {delay}}}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: D-15
    #[test]
    fn no_delay_is_no_delay_and_the_longest_is_a_number_the_broker_reads() {
        assert_eq!(nak(Duration::ZERO), NAK);
        assert_eq!(nak(Duration::from_millis(1500)), "-NAK {\"delay\": 1500000000}");
        assert_eq!(nak(Duration::MAX), format!("-NAK {{\"delay\": {}}}", i64::MAX));
    }
}
