//! Where deliveries arrive: a subject of one's own that the broker is asked to send to. A new one is opened
//! after every interruption, because the broker may remember what an old one was promised.

use std::sync::Arc;
use std::time::Duration;

use async_nats::{Message, Subject, Subscriber};
use futures_util::{FutureExt as _, StreamExt as _};
use punctual::clock::{add, within};
use punctual::{Error, Result};
use serde_json::json;

use crate::link::Link;
use crate::topology::GroupConsumer;

/// How long the broker keeps a request open.
const REQUEST_LENGTH: Duration = Duration::from_secs(30);
/// The longest the broker may be silent about an open request: half of its length, says the broker.
const HEARTBEAT_MAX: Duration = Duration::from_secs(15);

/// An inbox, open or not.
pub(crate) struct Inbox {
    link: Arc<Link>,
    /// How often the broker gives a sign of life.
    heartbeat: Duration,
    open: Option<(Subscriber, Subject)>,
}

impl Inbox {
    pub(crate) fn new(link: Arc<Link>, heartbeat: Duration) -> Self {
        Self { link, heartbeat: heartbeat.min(HEARTBEAT_MAX), open: None }
    }

    /// Asks the broker for so many deliveries, and opens if that has not been done.
    pub(crate) async fn request(&mut self, consumer: &GroupConsumer, count: usize) -> Result<()> {
        let inbox = match &self.open {
            Some((_, subject)) => subject.clone(),
            None => self.open().await?,
        };
        let request = json!({
            "batch": count,
            "expires": REQUEST_LENGTH.as_nanos(),
            "idle_heartbeat": self.heartbeat.as_nanos(),
        });
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

    /// Closes it and answers what was on its way: no more than was asked for.
    pub(crate) async fn close(&mut self) -> Vec<Message> {
        let mut rest = Vec::new();
        let Some((mut subscriber, _)) = self.open.take() else { return rest };
        if !*self.link.connected.borrow() || subscriber.drain().await.is_err() {
            return rest;
        }
        let clock = &*self.link.clock;
        let until = add(clock.now(), self.link.patience);
        while let Some(Some(message)) = within(clock, until, subscriber.next()).await {
            rest.push(message);
        }
        rest
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
