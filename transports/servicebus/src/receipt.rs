//! How a delivery is settled. Each way takes it by value, and whoever drops it puts it back.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fe2o3_amqp::link::delivery::DeliveryInfo;
use fe2o3_amqp::types::definitions::Fields;
use punctual::model::Message;
use punctual::transport::{Acknowledge, Outgoing, Rejection};
use punctual::wire::Wire;
use punctual::{Error, Result};
use tokio::sync::{mpsc, oneshot};

use crate::hold::Number;
use crate::line::Settings;
use crate::manage::Lock;
use crate::producer::Producer;
use crate::wire;

/// What is to become of a delivery.
#[derive(Debug)]
pub(crate) enum Fate {
    /// Done with it.
    Complete,
    /// Back, with one more delivery counted.
    Abandon,
    /// Back, as if it had never come.
    Release,
    /// To the dead letters, with this written on it.
    Bury(Fields),
}

/// A delivery that is to be settled.
pub(crate) struct Request {
    pub(crate) info: DeliveryInfo,
    pub(crate) link: u64,
    pub(crate) lock: Option<Lock>,
    pub(crate) fate: Fate,
    pub(crate) answer: Option<oneshot::Sender<Result<()>>>,
}

impl Request {
    pub(crate) fn number(&self) -> Number {
        (self.link, self.info.delivery_id())
    }
}

/// What a reader can be asked for.
pub(crate) enum Call {
    /// Settle a delivery.
    Settle(Request),
    /// Answer when everything before is settled.
    Flush(oneshot::Sender<()>),
}

/// What all deliveries of a consumer share.
pub(crate) struct Desk {
    pub(crate) settings: Arc<Settings>,
    pub(crate) producer: Arc<Producer>,
    /// The only group that a message is for which is put back; none where there is only one.
    pub(crate) group: Option<String>,
}

/// The right to settle one delivery.
pub(crate) struct ServiceBusReceipt {
    pub(crate) desk: Arc<Desk>,
    pub(crate) calls: mpsc::UnboundedSender<Call>,
    pub(crate) info: DeliveryInfo,
    /// The number of the link it came by.
    pub(crate) link: u64,
    pub(crate) lock: Option<Lock>,
    pub(crate) message: Arc<Message>,
    /// Which attempt this is.
    pub(crate) attempt: u32,
    /// How often the broker had delivered it before.
    pub(crate) deliveries: u32,
    /// Whether one of those deliveries was no attempt.
    pub(crate) is_forgiven: bool,
    /// Whether anybody has seen the delivery; if not, no attempt is spent.
    pub(crate) is_given: bool,
    /// Whether somebody has begun to settle it; nobody else does from then on.
    pub(crate) is_settled: bool,
}

impl ServiceBusReceipt {
    async fn settle(mut self, fate: Fate) -> Result<()> {
        self.is_settled = true;
        let (answer, answered) = oneshot::channel();
        let request = self.request(fate, Some(answer));
        let gone = || {
            Error::unavailable(
                "the consumer of this delivery has ended; it comes again when its lock runs out",
            )
        };
        self.calls.send(Call::Settle(request)).map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }

    fn request(&self, fate: Fate, answer: Option<oneshot::Sender<Result<()>>>) -> Request {
        Request { info: self.info.clone(), link: self.link, lock: self.lock, fate, answer }
    }

    /// A copy of it for its own group, later.
    async fn again(&self, delay: Duration) -> Result<()> {
        let copy = Outgoing {
            message: self.message.clone(),
            delay,
            attempt: self.attempt,
            group: self.desk.group.clone(),
        };
        let now = self.desk.settings.clock.now();
        self.desk.producer.put_back(copy, now).await
    }
}

#[async_trait]
impl Acknowledge for ServiceBusReceipt {
    async fn ack(self: Box<Self>) -> Result<()> {
        self.settle(Fate::Complete).await.map_err(|error| error.during("ack"))
    }

    async fn requeue(self: Box<Self>, delay: Duration) -> Result<()> {
        // The broker buries what it has delivered too often, whatever we think of it; and where its count
        // is wrong, a copy carries the right one.
        let is_last = self.deliveries + 1 >= self.desk.settings.deliveries_max || self.is_forgiven;
        let put_back = async {
            if delay.is_zero() && !is_last {
                return self.settle(Fate::Abandon).await;
            }
            // The copy first: what happens in between repeats the message and never loses it.
            self.again(delay).await?;
            self.settle(Fate::Complete).await
        };
        put_back.await.map_err(|error| error.during("requeue"))
    }

    async fn reject(self: Box<Self>, rejection: &Rejection) -> Result<()> {
        let letter = Wire::dead(&self.message, rejection)?;
        let fate = Fate::Bury(wire::rejected(&letter));
        self.settle(fate).await.map_err(|error| error.during("reject"))
    }
}

impl Drop for ServiceBusReceipt {
    fn drop(&mut self) {
        if self.is_settled {
            return;
        }
        let fate = if self.is_given { Fate::Abandon } else { Fate::Release };
        let request = self.request(fate, None);
        // Without a reader it is free when its lock has run out.
        let _ = self.calls.send(Call::Settle(request));
    }
}
