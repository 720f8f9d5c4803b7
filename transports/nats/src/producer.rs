//! Sending: a whole batch goes out before the first confirmation is waited for, and nothing is said to be
//! sent that the broker has not confirmed.

use std::future::IntoFuture as _;
use std::sync::Arc;

use async_nats::Subject;
use async_nats::jetstream::context::PublishAckFuture;
use async_nats::jetstream::message::PublishMessage;
use punctual::model::Message;
use punctual::transport::{Outgoing, Rejection};
use punctual::wire::Wire;
use punctual::{Error, ErrorKind, Result};

use crate::fault;
use crate::link::Link;
use crate::names::dead_topic;
use crate::options::body_max;
use crate::topology::Topology;
use crate::wire;

/// How many messages of a batch are under way at once.
const UNCONFIRMED_MAX: usize = 1_000;

/// Sends to any topic.
pub(crate) struct Producer {
    topology: Arc<Topology>,
    body_max: usize,
}

/// A message that is ready to leave.
struct Ready {
    subject: Subject,
    publish: PublishMessage,
}

impl Producer {
    pub(crate) fn new(topology: Arc<Topology>) -> Self {
        let body_max = body_max(&topology.link.client);
        Self { topology, body_max }
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
        let mut ready = Vec::with_capacity(batch.len());
        for outgoing in batch {
            let subject = self.topology.subject(outgoing.message.topic.as_str()).await?;
            let wire = Wire::of(outgoing)?;
            let identity = self.identity(outgoing);
            ready.push(self.ready(subject, wire, identity)?);
        }
        self.send(ready).await
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
        self.send(vec![self.ready(subject, wire, Some(from.to_owned()))?]).await
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

    async fn send(&self, ready: Vec<Ready>) -> Result<()> {
        let link = &self.topology.link;
        let mut ready = ready.into_iter().peekable();
        let mut sent = Ok(());
        while sent.is_ok() && ready.peek().is_some() {
            let part = ready.by_ref().take(UNCONFIRMED_MAX).collect();
            sent = link.while_connected(send_all(link, part)).await.and_then(|sent| sent);
        }
        if let Err(error) = &sent
            && error.kind() != ErrorKind::Invalid
        {
            // It may be a stream that is gone; the next call finds out.
            self.topology.forget();
        }
        sent
    }
}

async fn send_all(link: &Link, ready: Vec<Ready>) -> Result<()> {
    let mut unconfirmed: Vec<(Subject, PublishAckFuture)> = Vec::with_capacity(ready.len());
    for Ready { subject, publish } in ready {
        match link.jetstream.send_publish(subject.clone(), publish).await {
            Ok(confirmation) => unconfirmed.push((subject, confirmation)),
            Err(error) => return Err(fault::from_publish(error, &subject, &link.place)),
        }
    }
    for (subject, confirmation) in unconfirmed {
        confirmation
            .into_future()
            .await
            .map_err(|error| fault::from_publish(error, &subject, &link.place))?;
    }
    Ok(())
}
