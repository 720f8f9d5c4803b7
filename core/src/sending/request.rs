//! Request and reply: a message whose sender waits for a reply, up to a timeout.

use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::requests::reply_topic;
use super::routing::Via;
use super::{Publish, Publisher};
use crate::clock::within;
use crate::codec::Codecs;
use crate::error::{Error, Result};
use crate::model::GROUP_DEFAULT;
use crate::model::time::add;
use crate::model::{
    Body, Headers, IntoTopic, Message, MessageId, Queue, Topic, TransportName, reserved_headers,
};

/// Default timeout of a request.
const REPLY_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// A request that is sent when it is awaited, and returns its reply.
#[must_use = "a request is sent when it is awaited"]
pub struct Request {
    publish: Publish,
    timeout: Duration,
}

/// The reply to a request.
#[derive(Clone, Debug)]
pub struct Reply {
    message: Arc<Message>,
    codecs: Arc<Codecs>,
}

impl Publisher {
    /// Creates a request, whose handler replies with [`Context::reply`](crate::Context::reply) or
    /// [`Context::returns`](crate::Context::returns).
    ///
    /// ```
    /// # async fn example(publisher: punctual::Publisher) -> punctual::Result<()> {
    /// use std::time::Duration;
    ///
    /// let reply = publisher.request("price", "tea").timeout(Duration::from_secs(2)).await?;
    /// let cents: u64 = reply.read()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It is an ordinary message with an ordinary handler: it may be handled twice, and its handler may continue
    /// after the timeout. When several groups receive it, the first reply counts; later replies are dropped with
    /// the event `reply.late`. A failed attempt sends no reply.
    pub fn request<T: Serialize + ?Sized>(&self, topic: impl IntoTopic, payload: &T) -> Request {
        Request { publish: self.publish(topic, payload), timeout: REPLY_TIMEOUT_DEFAULT }
    }

    /// Sends the reply to a request to the process that waits for it.
    pub(crate) async fn reply(&self, request: &Message, body: Body) -> Result<()> {
        let Some(topic) = request.headers.get(reserved_headers::REPLY_TO) else {
            return Err(Error::conflict(format!(
                "no process waits for a reply to the message {}; it was published and not requested",
                request.id
            ))
            .with("message", request.id));
        };
        let via =
            request.headers.get(reserved_headers::REPLY_VIA).map(|name| self.reply_transport(name));
        let via = via.transpose()?;
        let publish = self.publish_body(&reply_topic(topic)?, body).set(|draft| {
            draft.headers.set_reserved(reserved_headers::REPLY_OF, request.id.to_string());
            if let Some(name) = via {
                draft.via = Via::Transport(name);
            } else {
                draft.via = Via::Storage;
                draft.queue = Queue::of_group(&draft.topic, GROUP_DEFAULT);
            }
            Ok(())
        });
        publish.await.map(|_| ())
    }

    /// Returns the transport by which the sender waits. Each process chooses its own names: a process with a
    /// single transport uses it under any name.
    fn reply_transport(&self, name: &str) -> Result<TransportName> {
        let transports = &self.sender().transports;
        let requested = TransportName::new(name)?;
        if transports.contains_key(&requested) {
            return Ok(requested);
        }
        let mut names = transports.keys();
        match (names.next(), names.next()) {
            (Some(only), None) => Ok(only.clone()),
            _ => Err(Error::not_found(format!(
                "the sender waits for its reply by the transport {name:?}, which this process does not have; use the same transport names on both sides"
            ))),
        }
    }
}

impl Request {
    /// Sets the timeout, which includes the sending. Default 30 seconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the transport of the request and of its reply.
    pub fn via(self, transport: impl AsRef<str>) -> Self {
        self.with(|publish| publish.via(transport))
    }

    /// Changes other options of the message.
    pub fn with(mut self, change: impl FnOnce(Publish) -> Publish) -> Self {
        self.publish = change(self.publish);
        self
    }

    async fn send(self) -> Result<Reply> {
        let publisher = self.publish.publisher;
        let mut draft = self.publish.draft?;
        let sender = publisher.sender().clone();
        if draft.via == Via::Routed {
            let route = sender.outbound.route(&draft.topic).cloned();
            draft.via = route.map_or(Via::Storage, Via::Transport);
        }
        let via = match &draft.via {
            Via::Transport(name) => Some(name.clone()),
            Via::Routed | Via::Storage => None,
        };
        let now = sender.env.now();
        let id = *draft.id.get_or_insert_with(|| sender.env.message_id(now));
        draft
            .headers
            .set_reserved(reserved_headers::REPLY_TO, Topic::of_replies(sender.env.id).to_string());
        if let Some(name) = &via {
            draft.headers.set_reserved(reserved_headers::REPLY_VIA, name.to_string());
        }
        let topic = draft.topic.clone();
        let exchange = async {
            let requests = &sender.outbound.requests;
            requests.listen(&sender, via.as_ref()).await?;
            let mut pending = requests.wait(id)?;
            let published = publisher.publish_draft(draft).await?;
            match published.duplicate_of {
                None => pending.reply().await,
                Some(alive) => Err(Error::conflict(format!(
                    "the request is a duplicate of the message {alive}, whose reply belongs to its own sender"
                ))),
            }
        };
        let codecs = sender.outbound.codecs.clone();
        match within(&*sender.env.clock, add(now, self.timeout), exchange).await {
            Some(reply) => Ok(Reply { message: reply?, codecs }),
            None => Err(Error::unavailable(format!(
                "no reply to the request {id} to {topic:?} within {:?}; it may still be handled",
                self.timeout
            ))
            .with("message", id)),
        }
    }
}

impl IntoFuture for Request {
    type Output = Result<Reply>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

impl Reply {
    /// Deserializes the payload of the reply by its content type.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T> {
        self.codecs.read(&self.message)
    }

    /// Returns the body of the reply.
    pub fn body(&self) -> Result<Body> {
        self.codecs.body(&self.message)
    }

    /// Returns the headers of the reply.
    pub fn headers(&self) -> &Headers {
        &self.message.headers
    }

    /// Returns the id of the reply itself.
    pub fn id(&self) -> MessageId {
        self.message.id
    }
}
