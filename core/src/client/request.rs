//! Requests and replies: a message whose sender waits for an answer, bounded by a timeout on the clock.

use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::requests::asked_for;
use super::via::Via;
use super::{Publish, Publisher};
use crate::builtin::GROUP_DEFAULT;
use crate::clock::{add, within};
use crate::codec::Codecs;
use crate::error::{Error, Result};
use crate::model::{
    Body, Headers, IntoTopic, Message, MessageId, Queue, Topic, TransportName, noted,
};

/// How long a reply is waited for unless said otherwise.
pub const REPLY_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// A request that is sent when it is awaited, and then waits for its reply.
#[must_use = "a request is sent when it is awaited"]
pub struct Request {
    publish: Publish,
    timeout: Duration,
}

/// What was answered.
#[derive(Clone, Debug)]
pub struct Reply {
    message: Arc<Message>,
    codecs: Arc<Codecs>,
}

impl Publisher {
    /// A message whose handler answers with [`Context::reply`](crate::Context::reply) or
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
    /// It is an ordinary message and its handler an ordinary handler: it may be handled twice, and go on
    /// after the sender has given up waiting. Where several groups get it, the first reply counts; the
    /// others, and what comes late, are dropped with the event `reply.late`. An attempt that fails answers
    /// nothing.
    pub fn request<T: Serialize + ?Sized>(&self, topic: impl IntoTopic, payload: &T) -> Request {
        Request { publish: self.publish(topic, payload), timeout: REPLY_TIMEOUT_DEFAULT }
    }

    /// Sends the answer to a request to whoever waits for it.
    pub(crate) async fn reply(&self, request: &Message, body: Body) -> Result<()> {
        let Some(topic) = request.headers.get(noted::REPLY_TO) else {
            return Err(Error::conflict(format!(
                "nobody waits for a reply to the message {}; it was published and not requested",
                request.id
            ))
            .with("message", request.id));
        };
        let via = request.headers.get(noted::REPLY_VIA).map(|name| self.reachable(name));
        let via = via.transpose()?;
        let publish = self.publish_body(&asked_for(topic)?, body).set(|draft| {
            draft.headers.note(noted::REPLY_OF, request.id.to_string());
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

    /// The transport by which somebody waits. Names are given by each process: where there is only one
    /// transport, that is the one, whatever the other side calls it.
    fn reachable(&self, name: &str) -> Result<TransportName> {
        let transports = &self.process().transports;
        let wanted = TransportName::new(name)?;
        if transports.contains_key(&wanted) {
            return Ok(wanted);
        }
        let mut names = transports.keys();
        match (names.next(), names.next()) {
            (Some(only), None) => Ok(only.clone()),
            _ => Err(Error::not_found(format!(
                "the reply is waited for by the transport {name:?}, which was not given to this builder; give both sides the same names"
            ))),
        }
    }
}

impl Request {
    /// How long to wait for the reply, instead of 30 seconds. The sending counts.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The transport that carries the request, and the reply back.
    pub fn via(self, transport: impl AsRef<str>) -> Self {
        self.with(|publish| publish.via(transport))
    }

    /// Everything else that can be said about a message.
    pub fn with(mut self, change: impl FnOnce(Publish) -> Publish) -> Self {
        self.publish = change(self.publish);
        self
    }

    async fn ask(self) -> Result<Reply> {
        let publisher = self.publish.publisher;
        let mut draft = self.publish.draft?;
        let process = publisher.process().clone();
        if draft.via == Via::Routed {
            let route = process.outbound.route(&draft.topic).cloned();
            draft.via = route.map_or(Via::Storage, Via::Transport);
        }
        let via = match &draft.via {
            Via::Transport(name) => Some(name.clone()),
            Via::Routed | Via::Storage => None,
        };
        let now = process.now();
        let id = *draft.id.get_or_insert_with(|| process.message_id(now));
        draft.headers.note(noted::REPLY_TO, Topic::of_replies(process.id).to_string());
        if let Some(name) = &via {
            draft.headers.note(noted::REPLY_VIA, name.to_string());
        }
        let topic = draft.topic.clone();
        let asking = async {
            let requests = &process.outbound.requests;
            requests.listen(&process, via.as_ref()).await?;
            let mut asked = requests.wait(id)?;
            let published = publisher.publish_draft(draft).await?;
            match published.duplicate_of {
                None => asked.reply().await,
                Some(alive) => Err(Error::conflict(format!(
                    "the request is a duplicate of the message {alive}, whose reply belongs to its own sender"
                ))),
            }
        };
        let codecs = process.outbound.codecs.clone();
        match within(&*process.clock, add(now, self.timeout), asking).await {
            Some(reply) => Ok(Reply { message: reply?, codecs }),
            None => Err(Error::unavailable(format!(
                "nobody answered the request {id} to {topic:?} within {:?}; it may still be handled",
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
        Box::pin(self.ask())
    }
}

impl Reply {
    /// Reads the answer, by the content type it has.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T> {
        self.codecs.read(&self.message)
    }

    /// The answer as it was written.
    pub fn body(&self) -> Result<Body> {
        self.codecs.body(&self.message)
    }

    /// The headers it came with.
    pub fn headers(&self) -> &Headers {
        &self.message.headers
    }

    /// The identity of the reply itself.
    pub fn id(&self) -> MessageId {
        self.message.id
    }
}
