//! Producer: sends a whole batch before it waits for confirmations, and reports success only for what the broker has
//! confirmed.

use std::future::IntoFuture as _;
use std::sync::Arc;

use async_nats::Subject;
use async_nats::jetstream::context::PublishAckFuture;
use async_nats::jetstream::message::PublishMessage;
use punctual::backend::transport::limits::check_delay;
use punctual::backend::transport::{Delay, OutgoingMessage, Rejection};
use punctual::backend::wire::{PREFIX_DEFAULT, Wire, Wrapping};
use punctual::model::Message;
use punctual::{Error, ErrorKind, Result};

use crate::error;
use crate::names::dead_topic;
use crate::topology::Topology;
use crate::wire;

/// Limit of the messages of a batch that are unconfirmed at once.
const UNCONFIRMED_MAX: usize = 1_000;

/// A sent message and its confirmation.
type PendingConfirmation = (Subject, PublishAckFuture);

/// Publishes to any topic.
pub(crate) struct Producer {
    topology: Arc<Topology>,
    body_max: usize,
    wrapping: Wrapping,
}

/// An encoded message.
struct EncodedMessage {
    subject: Subject,
    publish: PublishMessage,
}

impl Producer {
    pub(crate) fn new(topology: Arc<Topology>, wrapping: Wrapping, body_max: usize) -> Self {
        Self { topology, body_max, wrapping }
    }

    /// Returns the largest body that is accepted.
    pub(crate) fn body_max(&self) -> usize {
        self.body_max
    }

    /// Publishes a batch in order; `Ok` when all of it is confirmed.
    pub(crate) async fn publish(&self, batch: &[OutgoingMessage]) -> Result<()> {
        for outgoing in batch {
            self.check(outgoing)?;
        }
        let mut subjects = Vec::with_capacity(batch.len());
        for outgoing in batch {
            subjects.push(self.topology.subject(outgoing.message.topic.as_str()).await?);
        }
        for (part, subjects) in batch.chunks(UNCONFIRMED_MAX).zip(subjects.chunks(UNCONFIRMED_MAX))
        {
            self.with_timeout(self.send(part, subjects)).await?;
        }
        Ok(())
    }

    /// Publishes a dead letter. If the same delivery has published it before, it is not stored twice: the broker
    /// deduplicates by `from`, the origin of the delivery.
    pub(crate) async fn publish_dead_letter(
        &self,
        message: &Arc<Message>,
        rejection: &Rejection,
        from: &str,
    ) -> Result<()> {
        let topic = dead_topic(message.topic.as_str(), rejection.is_invalid());
        let subject = self.topology.subject(&topic).await?;
        let wire = Wire::dead(message, rejection)?;
        let encoded = self.encode(subject, wire, Some(from.to_owned()))?;
        self.with_timeout(async { self.wait_confirmed(vec![self.send_one(encoded).await?]).await })
            .await
    }

    fn check(&self, outgoing: &OutgoingMessage) -> Result<()> {
        let message = &outgoing.message;
        check_delay("NATS", Delay::None, message.id, outgoing.delay)?;
        let size = message.body.bytes.len();
        if size > self.body_max {
            return Err(Error::invalid(format!(
                "the body of the message {} has {size} bytes; the limit of NATS at {} is {}; send a \
                 smaller one or raise max_payload there",
                message.id, self.topology.connection.servers, self.body_max
            )));
        }
        Ok(())
    }

    /// Returns the id by which the broker recognizes a repeated publish, if deduplication is on. A message for one
    /// group, or with attempts spent, is a new one each time, although its id is the same.
    fn identity(&self, outgoing: &OutgoingMessage) -> Option<String> {
        let is_first = outgoing.group.is_none() && outgoing.attempt == 0;
        let is_deduplicated = self.topology.settings.deduplication_window.is_some() && is_first;
        let message = &outgoing.message;
        is_deduplicated.then(|| format!("{}@{}", message.id, message.due_at))
    }

    fn encode(
        &self,
        subject: Subject,
        wire: Wire,
        identity: Option<String>,
    ) -> Result<EncodedMessage> {
        let headers = wire::headers(&wire)?;
        let (size, limit) =
            (wire::size(&headers) + wire.body.len(), self.topology.connection.client.max_payload());
        if size > limit {
            return Err(Error::invalid(format!(
                "a message for {subject:?} has {size} bytes with its headers; the limit of NATS at {} is \
                 {limit}; send a smaller one or raise max_payload there",
                self.topology.connection.servers
            )));
        }
        let mut publish = PublishMessage::build().headers(headers).payload(wire.body);
        if let Some(identity) = identity {
            publish = publish.message_id(identity);
        }
        Ok(EncodedMessage { subject, publish })
    }

    /// Sends each message as soon as it is encoded, so that the connection is busy while the next is encoded.
    async fn send(&self, part: &[OutgoingMessage], subjects: &[Subject]) -> Result<()> {
        let mut unconfirmed = Vec::with_capacity(part.len());
        for (outgoing, subject) in part.iter().zip(subjects) {
            let wire = self.wrapping.wire(outgoing, PREFIX_DEFAULT)?;
            let identity = self.identity(outgoing);
            unconfirmed.push(self.send_one(self.encode(subject.clone(), wire, identity)?).await?);
        }
        self.wait_confirmed(unconfirmed).await
    }

    async fn send_one(&self, encoded: EncodedMessage) -> Result<PendingConfirmation> {
        let EncodedMessage { subject, publish } = encoded;
        let connection = &self.topology.connection;
        match connection.jetstream.send_publish(subject.clone(), publish).await {
            Ok(confirmation) => Ok((subject, confirmation)),
            Err(error) => Err(error::map_publish_error(error, &subject, &connection.servers)),
        }
    }

    async fn wait_confirmed(&self, unconfirmed: Vec<PendingConfirmation>) -> Result<()> {
        let servers = &self.topology.connection.servers;
        for (subject, confirmation) in unconfirmed {
            let confirmed = confirmation.into_future().await;
            confirmed.map_err(|error| error::map_publish_error(error, &subject, servers))?;
        }
        Ok(())
    }

    /// Waits for work while the connection is up, at most for the timeout.
    async fn with_timeout(&self, work: impl Future<Output = Result<()>>) -> Result<()> {
        let sent = self.topology.connection.while_connected(work).await.and_then(|sent| sent);
        if let Err(error) = &sent
            && error.kind() != ErrorKind::Invalid
        {
            // A stream may have been deleted; the next call checks.
            self.topology.forget();
        }
        sent
    }
}
