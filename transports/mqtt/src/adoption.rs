//! Adoption of the session of a member that is gone: its unacknowledged messages are published to the group again,
//! confirmed, and then acknowledged; an empty session is ended. If the adoption is interrupted, the rest stays in the
//! session for the next one.

use std::sync::Arc;
use std::time::Duration;

use punctual::backend::transport::OutgoingMessage;
use punctual::backend::wire::Wire;
use punctual::clock::{add, within};
use punctual::model::Topic;

use crate::codec::Publish;
use crate::connection::{Connection, Publishes};
use crate::connector::{Connector, SessionOptions};
use crate::error::ConnectionError;
use crate::membership::OrphanedSession;
use crate::names::{Names, inbox};
use crate::wire::{Publication, read};

/// Limit of the messages received from the session at once.
const BATCH_MAX: u16 = 256;

/// Adopts sessions of one group of one topic.
#[derive(Clone, Debug)]
pub(crate) struct Adopter {
    pub(crate) connector: Connector,
    pub(crate) prefix: String,
    pub(crate) names: Names,
    pub(crate) topic: Topic,
    pub(crate) group: String,
    /// How long the broker keeps sessions of the group.
    pub(crate) session_retention: Duration,
}

/// Returns the client identifier of a member.
pub(crate) fn client(prefix: &str, id: &str) -> String {
    format!("{prefix}-{id}")
}

impl Adopter {
    /// Republishes everything from a session and ends it; returns the number of messages.
    pub(crate) async fn adopt(&self, orphan: &OrphanedSession) -> Result<usize, ConnectionError> {
        let client = client(&self.prefix, &orphan.id);
        let options = SessionOptions {
            client: &client,
            clean: false,
            session_retention: self.session_retention,
            receive_max: BATCH_MAX,
            will: None,
        };
        let (connection, mut publishes) = Connection::open(&self.connector, options).await?;
        let mut count = 0;
        if connection.connack.session_present {
            count = self.drain(&connection, &mut publishes, orphan).await?;
        }
        connection.end().await;
        // A clean connection deletes the session, in both versions of MQTT.
        let (connection, _) = Connection::open(
            &self.connector,
            SessionOptions { clean: true, session_retention: Duration::ZERO, ..options },
        )
        .await?;
        connection
            .publish(&[Publication::retained(&self.names.member_topic(&orphan.id), b"")])
            .await?;
        connection.end().await;
        Ok(count)
    }

    async fn drain(
        &self,
        connection: &Connection,
        publishes: &mut Publishes,
        orphan: &OrphanedSession,
    ) -> Result<usize, ConnectionError> {
        let inbox = inbox(&self.prefix, &orphan.id);
        let [shared, own] = &self.names.filters;
        connection.subscribe(&[(&inbox, true)]).await?;
        connection.unsubscribe(&[shared, own, &self.names.members]).await?;
        // Nothing new is routed to the session now, so this message to itself comes last. It is confirmed before it
        // arrives, and the call must not wait for its arrival.
        let end = Publication { retained: false, ..Publication::retained(&inbox, b"end") };
        connection.publish(&[end]).await?;
        let mut count = 0;
        let mut batch = Vec::with_capacity(BATCH_MAX.into());
        loop {
            let Connector { clock, timeout, .. } = &self.connector;
            let until = add(clock.now(), *timeout);
            let received = publishes.recv_many(&mut batch, BATCH_MAX.into());
            match within(&**clock, until, received).await {
                None => return Err(ConnectionError::Timeout(*timeout)),
                Some(0) => return Err(connection.error()),
                Some(_) => {}
            }
            let is_last = batch.iter().any(|publish| publish.topic == inbox);
            count += self.republish(connection, &inbox, &mut batch, orphan).await?;
            if is_last {
                return Ok(count);
            }
        }
    }

    /// Publishes messages to the group and then acknowledges them.
    async fn republish(
        &self,
        connection: &Connection,
        inbox: &str,
        batch: &mut Vec<Publish>,
        orphan: &OrphanedSession,
    ) -> Result<usize, ConnectionError> {
        let group_topic: Arc<str> = Arc::from(self.names.group_topic.as_str());
        let mut ids = Vec::with_capacity(batch.len());
        let mut publications = Vec::with_capacity(batch.len());
        for publish in batch.drain(..) {
            ids.push(publish.id);
            let is_ours = publish.topic != inbox && self.names.member_of(&publish.topic).is_none();
            if is_ours {
                publications.push(self.publication(group_topic.clone(), publish, orphan));
            }
        }
        if connection.publish(&publications).await? > 0 {
            return Err(ConnectionError::Lost("no member of the group is subscribed".to_owned()));
        }
        ids.into_iter().filter(|id| *id > 0).for_each(|id| _ = connection.ack(id));
        Ok(publications.len())
    }

    /// Returns the message to republish: unchanged, or with its attempt increased by one if a member may have started
    /// to handle it.
    fn publication(
        &self,
        group_topic: Arc<str>,
        publish: Publish,
        orphan: &OrphanedSession,
    ) -> Publication {
        if orphan.left_cleanly || !publish.duplicate {
            return Publication::forwarded(group_topic, publish);
        }
        let now = self.connector.clock.now();
        let position = format_args!("{}/{}/{now}", orphan.id, publish.id);
        let received = read(&publish, &self.topic, position, now);
        let is_readable = received.poison.is_none();
        let outgoing = OutgoingMessage {
            message: Arc::new(received.message),
            delay: Duration::ZERO,
            attempt: received.attempt.saturating_add(1),
            group: Some(self.group.clone()),
        };
        let counted = Wire::of(&outgoing)
            .and_then(|wire| Publication::new(group_topic.clone(), wire, self.connector.version));
        match counted {
            Ok(publication) if is_readable => Publication { needs_subscriber: true, ..publication },
            _ => Publication::forwarded(group_topic, publish),
        }
    }
}
