//! Sending: a whole batch goes out before the first confirmation is waited for, and nothing is said to be
//! sent that the broker has not confirmed.

use std::future::IntoFuture as _;
use std::sync::Arc;

use async_nats::Subject;
use async_nats::jetstream::context::PublishAckFuture;
use async_nats::jetstream::message::PublishMessage;
use punctual::model::Message;
use punctual::transport::{Outgoing, Rejection};
use punctual::wire::{PREFIX_DEFAULT, Wire, Wrapping};
use punctual::{Error, ErrorKind, Result};

use crate::fault;
use crate::names::dead_topic;
use crate::options::body_max;
use crate::topology::Topology;
use crate::wire;

/// How many messages of a batch are under way at once.
const UNCONFIRMED_MAX: usize = 1_000;

/// A message that was sent, and its confirmation.
type Unconfirmed = (Subject, PublishAckFuture);

/// Sends to any topic.
pub(crate) struct Producer {
    topology: Arc<Topology>,
    body_max: usize,
    wrapping: Wrapping,
}

/// A message that is ready to leave.
struct Ready {
    subject: Subject,
    publish: PublishMessage,
}

impl Producer {
    pub(crate) fn new(topology: Arc<Topology>, wrapping: Wrapping) -> Self {
        let body_max = body_max(&topology.link.client);
        Self { topology, body_max, wrapping }
    }

    /// The largest body that is accepted.
    pub(crate) fn body_max(&self) -> usize {
        self.body_max
    }

    /// Sends all of it, in order; `Ok` when all of it is confirmed.
    pub(crate) async fn publish(&self, batch: &[Outgoing]) -> Result<()> {
        for outgoing in batch {
            self.check(outgoing)?;
        }
        let mut subjects = Vec::with_capacity(batch.len());
        for outgoing in batch {
            subjects.push(self.topology.subject(outgoing.message.topic.as_str()).await?);
        }
        for (part, subjects) in batch.chunks(UNCONFIRMED_MAX).zip(subjects.chunks(UNCONFIRMED_MAX))
        {
            self.bounded(self.send(part, subjects)).await?;
        }
        Ok(())
    }

    /// Sends a dead letter to its place. One that the same delivery has sent before is not kept twice: the
    /// broker knows it by where the delivery came from.
    pub(crate) async fn bury(
        &self,
        message: &Arc<Message>,
        rejection: &Rejection,
        from: &str,
    ) -> Result<()> {
        let topic = dead_topic(message.topic.as_str(), rejection.is_invalid());
        let subject = self.topology.subject(&topic).await?;
        let wire = Wire::dead(message, rejection)?;
        let ready = self.ready(subject, wire, Some(from.to_owned()))?;
        self.bounded(async { self.confirmed(vec![self.hand_over(ready).await?]).await }).await
    }

    fn check(&self, outgoing: &Outgoing) -> Result<()> {
        let message = &outgoing.message;
        if !outgoing.delay.is_zero() {
            return Err(Error::unsupported(format!(
                "NATS cannot delay the message {} by {:?} when it is published; keep it in a storage until \
                 then",
                message.id, outgoing.delay
            )));
        }
        let size = message.body.bytes.len();
        if size > self.body_max {
            return Err(Error::invalid(format!(
                "the body of the message {} has {size} bytes; NATS at {} takes {} at most, so send less or \
                 raise max_payload there",
                message.id, self.topology.link.place, self.body_max
            )));
        }
        Ok(())
    }

    /// What the broker recognises a repeated publish by, if it shall. A message that comes back to a group,
    /// or with attempts spent, is another one each time, although its id is the same.
    fn identity(&self, outgoing: &Outgoing) -> Option<String> {
        let is_first = outgoing.group.is_none() && outgoing.attempt == 0;
        let is_wanted = self.topology.wanted.deduplicated_for.is_some() && is_first;
        let message = &outgoing.message;
        is_wanted.then(|| format!("{}@{}", message.id, message.due_at))
    }

    fn ready(&self, subject: Subject, wire: Wire, identity: Option<String>) -> Result<Ready> {
        let headers = wire::headers(&wire)?;
        let (size, most) =
            (wire::size(&headers) + wire.body.len(), self.topology.link.client.max_payload());
        if size > most {
            return Err(Error::invalid(format!(
                "a message for {subject:?} has {size} bytes with its headers; NATS at {} takes {most} at \
                 most, so send less or raise max_payload there",
                self.topology.link.place
            )));
        }
        let mut publish = PublishMessage::build().headers(headers).payload(wire.body);
        if let Some(identity) = identity {
            publish = publish.message_id(identity);
        }
        Ok(Ready { subject, publish })
    }

    /// Sends each as soon as it is encoded, so that the connection has work while the next is made ready.
    async fn send(&self, part: &[Outgoing], subjects: &[Subject]) -> Result<()> {
        let mut unconfirmed = Vec::with_capacity(part.len());
        for (outgoing, subject) in part.iter().zip(subjects) {
            let wire = self.wrapping.wire(outgoing, PREFIX_DEFAULT)?;
            let identity = self.identity(outgoing);
            unconfirmed.push(self.hand_over(self.ready(subject.clone(), wire, identity)?).await?);
        }
        self.confirmed(unconfirmed).await
    }

    async fn hand_over(&self, ready: Ready) -> Result<Unconfirmed> {
        let Ready { subject, publish } = ready;
        let link = &self.topology.link;
        match link.jetstream.send_publish(subject.clone(), publish).await {
            Ok(confirmation) => Ok((subject, confirmation)),
            Err(error) => Err(fault::from_publish(error, &subject, &link.place)),
        }
    }

    async fn confirmed(&self, unconfirmed: Vec<Unconfirmed>) -> Result<()> {
        let place = &self.topology.link.place;
        for (subject, confirmation) in unconfirmed {
            let confirmed = confirmation.into_future().await;
            confirmed.map_err(|error| fault::from_publish(error, &subject, place))?;
        }
        Ok(())
    }

    /// Sends for as long as the connection is up and patience lasts.
    async fn bounded(&self, sending: impl Future<Output = Result<()>>) -> Result<()> {
        let sent = self.topology.link.while_connected(sending).await.and_then(|sent| sent);
        if let Err(error) = &sent
            && error.kind() != ErrorKind::Invalid
        {
            // It may be a stream that is gone; the next call finds out.
            self.topology.forget();
        }
        sent
    }
}
