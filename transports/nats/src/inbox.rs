//! Where deliveries arrive: a subject of one's own that the broker is asked to send to. A new one is opened
//! after every interruption, because the broker may remember what an old one was promised.

use std::sync::Arc;
use std::time::Duration;

use async_nats::{Message, Subject, Subscriber};
use futures_util::{FutureExt as _, StreamExt as _};
use punctual::{Error, Result};
use serde_json::json;

use crate::link::Link;
use crate::topology::GroupConsumer;

/// How long the broker keeps a request open. Short, because a request can only run out: an inbox that is
/// closed before loses what is on its way to it, and the broker waits for its settlement until `ack_wait`.
pub(crate) const REQUEST_LENGTH: Duration = Duration::from_millis(500);

/// An inbox, open or not.
pub(crate) struct Inbox {
    link: Arc<Link>,
    open: Option<(Subscriber, Subject)>,
}

impl Inbox {
    pub(crate) fn new(link: Arc<Link>) -> Self {
        Self { link, open: None }
    }

    /// Asks the broker for so many deliveries, and opens if that has not been done.
    pub(crate) async fn request(&mut self, consumer: &GroupConsumer, count: usize) -> Result<()> {
        let inbox = match &self.open {
            Some((_, subject)) => subject.clone(),
            None => self.open().await?,
        };
        let request = json!({ "batch": count, "expires": REQUEST_LENGTH.as_nanos() });
        let GroupConsumer { stream, name } = consumer;
        let subject = format!("{}.CONSUMER.MSG.NEXT.{stream}.{name}", self.link.api);
        let sent = self.link.client.publish_with_reply(subject, inbox, request.to_string().into());
        self.link.while_connected(sent).await?.map_err(|error| {
            let place = &self.link.place;
            Error::unavailable(format!("NATS at {place} did not take a request: {error}"))
        })
    }

    /// The next message, nothing when it was closed from the other side; waits for ever while it is not
    /// open.
    pub(crate) async fn next(&mut self) -> Option<Message> {
        match &mut self.open {
            Some((subscriber, _)) => subscriber.next().await,
            None => std::future::pending().await,
        }
    }

    /// The next message if it is here already.
    pub(crate) fn ready(&mut self) -> Option<Message> {
        self.open.as_mut()?.0.next().now_or_never().flatten()
    }

    /// Forgets it, and what has not been taken out.
    pub(crate) fn forget(&mut self) {
        self.open = None;
    }

    async fn open(&mut self) -> Result<Subject> {
        let subject = Subject::from(self.link.client.new_inbox());
        let subscribed = self.link.client.subscribe(subject.clone());
        let subscriber = self.link.while_connected(subscribed).await?.map_err(|error| {
            let place = &self.link.place;
            Error::unavailable(format!("NATS at {place} cannot be listened to: {error}"))
        })?;
        self.open = Some((subscriber, subject.clone()));
        Ok(subject)
    }
}
