//! Producer: publishes a whole batch without waiting in between and returns when the broker has confirmed every
//! message. An invalid message is refused before any of its batch is sent.
//!
//! The first batch opens the connection, and the first one after it was lost opens another.

use std::sync::Arc;

use punctual::backend::transport::limits::check_delay;
use punctual::backend::transport::{Delay, OutgoingMessage};
use punctual::backend::wire::Wrapping;
use punctual::clock::{add, within};
use punctual::model::Topic;
use punctual::{Error, Result};
use tokio::sync::Mutex;

use crate::connection::Connection;
use crate::connector::{Connector, SessionOptions};
use crate::error::{ConnectionError, map_error};
use crate::names;
use crate::wire::{ATTRIBUTE_PREFIX, Publication};

/// Publishes messages.
#[derive(Debug)]
pub(crate) struct Producer {
    pub(crate) connector: Connector,
    pub(crate) client: String,
    pub(crate) prefix: String,
    pub(crate) payload_max: usize,
    /// Whether a message for all groups may have no subscriber.
    pub(crate) allows_no_subscribers: bool,
    pub(crate) wrapping: Wrapping,
    pub(crate) connection: Mutex<Option<Arc<Connection>>>,
}

impl Producer {
    pub(crate) async fn publish(&self, batch: &[OutgoingMessage]) -> Result<()> {
        batch.iter().try_for_each(|outgoing| self.check(outgoing))?;
        if batch.is_empty() {
            return Ok(());
        }
        let publications = self.publications(batch)?;
        let map =
            |error: ConnectionError| map_error(&error, &self.connector.server()).during("publish");
        let connection = self.open().await.map_err(map)?;
        if connection.publish(&publications).await.map_err(map)? > 0 {
            // The broker has discarded the message, and reports success.
            return Err(Error::unavailable(format!(
                "the MQTT broker at {} has no subscription for some of these messages and discarded them; \
                 start a consumer first, or set allow_no_subscribers(true)",
                self.connector.server()
            ))
            .during("publish"));
        }
        Ok(())
    }

    /// Returns the current connection, or opens a new one.
    pub(crate) async fn open(&self) -> std::result::Result<Arc<Connection>, ConnectionError> {
        let Connector { clock, timeout, .. } = &self.connector;
        // Callers that wait for an unresponsive broker do not wait for each other's timeouts.
        let guard = within(&**clock, add(clock.now(), *timeout), self.connection.lock()).await;
        let mut guard = guard.ok_or(ConnectionError::Timeout(*timeout))?;
        if let Some(connection) = guard.as_ref().filter(|connection| !connection.has_ended()) {
            return Ok(connection.clone());
        }
        let options = SessionOptions {
            client: &self.client,
            clean: true,
            session_retention: std::time::Duration::ZERO,
            receive_max: 1,
            will: None,
        };
        let (connection, _) = Connection::open(&self.connector, options).await?;
        let connection = Arc::new(connection);
        *guard = Some(connection.clone());
        Ok(connection)
    }

    fn check(&self, outgoing: &OutgoingMessage) -> Result<()> {
        let message = &outgoing.message;
        check_delay("MQTT", Delay::None, message.id, outgoing.delay)?;
        if let Some(group) = &outgoing.group {
            names::check_group(group)?;
        }
        message.body.check(self.payload_max)
    }

    fn publications(&self, batch: &[OutgoingMessage]) -> Result<Vec<Publication>> {
        let mut publications = Vec::with_capacity(batch.len());
        // Most batches have one topic, whose name is computed once.
        let mut last: Option<(&Topic, Arc<str>)> = None;
        for outgoing in batch {
            let topic = &outgoing.message.topic;
            let name = match (&outgoing.group, &last) {
                (Some(group), _) => Arc::from(names::group_topic(&self.prefix, topic, group)),
                (None, Some((last_topic, name))) if *last_topic == topic => name.clone(),
                (None, _) => {
                    let name: Arc<str> = Arc::from(names::topic_name(&self.prefix, topic));
                    last = Some((topic, name.clone()));
                    name
                }
            };
            let wire = self.wrapping.wire(outgoing, ATTRIBUTE_PREFIX)?;
            let publication = Publication::new(name, wire, self.connector.version)?;
            publications.push(Publication {
                needs_subscriber: !self.allows_no_subscribers || outgoing.group.is_some(),
                ..publication
            });
        }
        Ok(publications)
    }
}
