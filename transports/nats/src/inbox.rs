//! Inbox of a consumer: the subject to which the broker sends requested deliveries. A new one is opened after every
//! interruption, because the broker may still serve requests of the old one.

use std::sync::Arc;
use std::time::Duration;

use async_nats::{Message, Subject, Subscriber};
use futures_util::{FutureExt as _, StreamExt as _};
use punctual::{Error, Result};
use serde_json::json;

use crate::connection::Connection;
use crate::topology::GroupConsumer;

/// How long the broker keeps a request open. Short, because a request cannot be cancelled: closing an inbox earlier
/// loses the deliveries on their way, and the broker waits for their settlement until `ack_wait`.
pub(crate) const REQUEST_EXPIRY: Duration = Duration::from_millis(500);

/// An inbox, open or not.
pub(crate) struct Inbox {
    connection: Arc<Connection>,
    open: Option<(Subscriber, Subject)>,
}

impl Inbox {
    pub(crate) fn new(connection: Arc<Connection>) -> Self {
        Self { connection, open: None }
    }

    /// Requests `count` deliveries, and opens the inbox if necessary.
    pub(crate) async fn request(&mut self, consumer: &GroupConsumer, count: usize) -> Result<()> {
        let inbox = match &self.open {
            Some((_, subject)) => subject.clone(),
            None => self.open().await?,
        };
        let request = json!({ "batch": count, "expires": REQUEST_EXPIRY.as_nanos() });
        let GroupConsumer { stream, name } = consumer;
        let subject = format!("{}.CONSUMER.MSG.NEXT.{stream}.{name}", self.connection.api);
        let sent =
            self.connection.client.publish_with_reply(subject, inbox, request.to_string().into());
        self.connection.while_connected(sent).await?.map_err(|error| {
            let servers = &self.connection.servers;
            Error::unavailable(format!("NATS at {servers} refused a request: {error}"))
        })
    }

    /// Returns the next message, or none when the inbox was closed by the client; waits forever while it is not open.
    pub(crate) async fn next(&mut self) -> Option<Message> {
        match &mut self.open {
            Some((subscriber, _)) => subscriber.next().await,
            None => std::future::pending().await,
        }
    }

    /// Returns the next message if it has arrived already.
    pub(crate) fn ready(&mut self) -> Option<Message> {
        self.open.as_mut()?.0.next().now_or_never().flatten()
    }

    /// Closes the inbox and drops its unread messages.
    pub(crate) fn close(&mut self) {
        self.open = None;
    }

    async fn open(&mut self) -> Result<Subject> {
        let subject = Subject::from(self.connection.client.new_inbox());
        let subscribed = self.connection.client.subscribe(subject.clone());
        let subscriber = self.connection.while_connected(subscribed).await?.map_err(|error| {
            let servers = &self.connection.servers;
            Error::unavailable(format!("NATS at {servers} refused a subscription: {error}"))
        })?;
        self.open = Some((subscriber, subject.clone()));
        Ok(subject)
    }
}
