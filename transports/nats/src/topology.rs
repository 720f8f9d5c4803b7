//! What has to be on the broker: a stream for each topic and a durable consumer for each group. Declared
//! when it is not there and that is allowed; what is there is checked, and never changed.
//!
//! A stream of its own for each topic, because retention is a matter of the stream: a topic's messages go
//! when every group has settled them, its dead letters stay until somebody takes them away.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::Subject;
use async_nats::jetstream::consumer::{self, AckPolicy};
use async_nats::jetstream::stream::{self, RetentionPolicy, StorageType};
use punctual::model::Topic;
use punctual::{Error, Result};
use serde::Deserialize;
use serde_json::json;

use crate::link::{Answer, Link};
use crate::names::{Names, is_dead_topic};

/// How the description of a stream of ours begins; the topic follows.
const DESCRIPTION: &str = "topic ";
/// The most pages of streams that are read to list topics; a page has 256.
const PAGES_MAX: usize = 1_000;

/// What can be set about what is created.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) declare: bool,
    pub(crate) in_memory: bool,
    pub(crate) replicas: usize,
    pub(crate) ack_wait: Duration,
    pub(crate) dead_kept_for: Option<Duration>,
    pub(crate) deduplicated_for: Option<Duration>,
    pub(crate) drop_unheard: bool,
}

/// Declares and checks.
pub(crate) struct Topology {
    pub(crate) link: Arc<Link>,
    pub(crate) names: Names,
    pub(crate) wanted: Wanted,
    /// Subjects of topics whose streams were seen, with somebody to keep messages for.
    ready: Mutex<HashMap<Arc<str>, Subject>>,
}

/// The durable consumer of a group.
#[derive(Clone, Debug)]
pub(crate) struct GroupConsumer {
    pub(crate) stream: String,
    pub(crate) name: String,
}

#[derive(Deserialize)]
struct Page {
    total: usize,
    #[serde(default)]
    streams: Option<Vec<stream::Info>>,
}

impl Topology {
    pub(crate) fn new(link: Arc<Link>, names: Names, wanted: Wanted) -> Self {
        Self { link, names, wanted, ready: Mutex::default() }
    }

    /// Whether messages survive a restart of the broker.
    pub(crate) fn is_durable(&self) -> bool {
        !self.wanted.in_memory
    }

    /// The subject of a topic that can be published to: its stream is there and somebody's messages are
    /// kept in it.
    pub(crate) async fn subject(&self, topic: &str) -> Result<Subject> {
        if let Some(subject) = self.ready().get(topic) {
            return Ok(subject.clone());
        }
        let info = self.stream(topic).await?;
        let is_heard = info.state.consumer_count > 0
            || info.config.retention != RetentionPolicy::Interest
            || self.wanted.drop_unheard;
        if !is_heard {
            return Err(Error::unavailable(format!(
                "no group has subscribed to the topic {topic:?} yet, so NATS would drop what is published \
                 to it; subscribe first, or allow it with drop_unheard"
            )));
        }
        let subject = Subject::from(self.names.subject(topic));
        self.ready().insert(Arc::from(topic), subject.clone());
        Ok(subject)
    }

    /// Looks at everything again the next time, because something was not there.
    pub(crate) fn forget(&self) {
        self.ready().clear();
    }

    /// The consumer of a group, and the stream it reads.
    pub(crate) async fn group(&self, topic: &str, group: &str) -> Result<GroupConsumer> {
        let info = self.stream(topic).await?;
        let (stream, name) = (info.config.name, Names::consumer(group)?);
        let what = format!("the consumer {name:?} of the stream {stream:?}");
        let subject = format!("CONSUMER.INFO.{stream}.{name}");
        let found = match self.link.call(subject, &json!({}), &what).await? {
            Answer::Here(info) => info,
            Answer::Absent => {
                self.may_declare(&what)?;
                let subject = format!("CONSUMER.DURABLE.CREATE.{stream}.{name}");
                let request = json!({
                    "stream_name": stream,
                    "config": self.consumer_config(topic, group, &name),
                });
                match self.link.call(subject, &request, &what).await? {
                    Answer::Here(info) => info,
                    Answer::Absent => return Err(vanished(&what)),
                }
            }
        };
        self.check_consumer(&found, &what)?;
        Ok(GroupConsumer { stream, name })
    }

    /// The topics that have a stream here, in order.
    pub(crate) async fn topics(&self) -> Result<Vec<Topic>> {
        let mut topics = Vec::new();
        let mut offset = 0;
        for _ in 0..PAGES_MAX {
            let request = json!({ "offset": offset });
            let listed = self.link.call("STREAM.LIST".to_owned(), &request, "the list of streams");
            let Answer::Here(Page { total, streams }) = listed.await? else { break };
            let streams = streams.unwrap_or_default();
            offset += streams.len();
            let is_last = streams.is_empty() || offset >= total;
            topics.extend(streams.into_iter().filter_map(|info| self.topic_of(&info.config)));
            if is_last {
                break;
            }
        }
        topics.sort();
        Ok(topics)
    }

    fn topic_of(&self, config: &stream::Config) -> Option<Topic> {
        let told = config.description.as_deref()?.strip_prefix(DESCRIPTION)?;
        Topic::stored(told).ok().filter(|_| self.names.owns(&config.name))
    }

    async fn stream(&self, topic: &str) -> Result<stream::Info> {
        let name = self.names.stream(topic);
        let what = format!("the stream {name:?}");
        let subject = format!("STREAM.INFO.{name}");
        let found: stream::Info = match self.link.call(subject, &json!({}), &what).await? {
            Answer::Here(info) => info,
            Answer::Absent => {
                self.may_declare(&what)?;
                let request = self.stream_config(topic, &name);
                let created = self.link.call(format!("STREAM.CREATE.{name}"), &request, &what);
                match created.await? {
                    Answer::Here(info) => info,
                    Answer::Absent => return Err(vanished(&what)),
                }
            }
        };
        self.check_stream(topic, &found.config, &what)?;
        Ok(found)
    }

    fn stream_config(&self, topic: &str, name: &str) -> serde_json::Value {
        let wanted = &self.wanted;
        let is_dead = is_dead_topic(topic);
        let max_age = wanted.dead_kept_for.filter(|_| is_dead).unwrap_or_default();
        let mut config = json!({
            "name": name,
            "description": format!("{DESCRIPTION}{topic}"),
            "subjects": [self.names.subject(topic)],
            "retention": if is_dead { "limits" } else { "interest" },
            "storage": if wanted.in_memory { "memory" } else { "file" },
            "num_replicas": wanted.replicas,
            "discard": "new",
            "max_consumers": -1,
            "max_msgs": -1,
            "max_bytes": -1,
            "max_age": nanoseconds(max_age),
        });
        if let Some(window) = wanted.deduplicated_for {
            config["duplicate_window"] = json!(nanoseconds(window));
        }
        config
    }

    fn consumer_config(&self, topic: &str, group: &str, name: &str) -> serde_json::Value {
        json!({
            "durable_name": name,
            "description": format!("group {group}"),
            // A new group begins with what is published from now on; dead letters are read from the first.
            "deliver_policy": if is_dead_topic(topic) { "all" } else { "new" },
            "ack_policy": "explicit",
            "ack_wait": nanoseconds(self.wanted.ack_wait),
            "max_deliver": -1,
            // What waits for its delay counts here too, and must never keep the others from flowing.
            "max_ack_pending": -1,
            "replay_policy": "instant",
        })
    }

    fn check_stream(&self, topic: &str, found: &stream::Config, what: &str) -> Result<()> {
        let mut differing = Differing::default();
        let subjects = [self.names.subject(topic)];
        differing.note("subjects", found.subjects == subjects, &found.subjects, &subjects);
        let retention =
            if is_dead_topic(topic) { RetentionPolicy::Limits } else { RetentionPolicy::Interest };
        differing.note("retention", found.retention == retention, found.retention, retention);
        let storage = if self.wanted.in_memory { StorageType::Memory } else { StorageType::File };
        differing.note("storage", found.storage == storage, found.storage, storage);
        let replicas = self.wanted.replicas;
        differing.note(
            "num_replicas",
            found.num_replicas == replicas,
            found.num_replicas,
            replicas,
        );
        if let Some(window) = self.wanted.deduplicated_for {
            let found = found.duplicate_window;
            differing.note("duplicate_window", found == window, found, window);
        }
        differing.note("no_ack", !found.no_ack, found.no_ack, false);
        differing.into_result(what)
    }

    fn check_consumer(&self, found: &consumer::Info, what: &str) -> Result<()> {
        let found = &found.config;
        let mut differing = Differing::default();
        let is_pulled = found.deliver_subject.is_none();
        differing.note("deliver_subject", is_pulled, &found.deliver_subject, None::<String>);
        let explicit = AckPolicy::Explicit;
        differing.note("ack_policy", found.ack_policy == explicit, found.ack_policy, explicit);
        let ack_wait = self.wanted.ack_wait;
        differing.note("ack_wait", found.ack_wait == ack_wait, found.ack_wait, ack_wait);
        differing.note("max_deliver", found.max_deliver <= 0, found.max_deliver, -1);
        differing.note("max_ack_pending", found.max_ack_pending <= 0, found.max_ack_pending, -1);
        let is_whole = found.filter_subject.is_empty();
        differing.note("filter_subject", is_whole, &found.filter_subject, "");
        differing.into_result(what)
    }

    fn may_declare(&self, what: &str) -> Result<()> {
        if self.wanted.declare {
            return Ok(());
        }
        Err(Error::not_found(format!(
            "{what} does not exist on NATS at {}; create it, or let the transport declare it",
            self.link.place
        )))
    }

    fn ready(&self) -> std::sync::MutexGuard<'_, HashMap<Arc<str>, Subject>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Settings that are not as they have to be.
#[derive(Default)]
struct Differing(Vec<String>);

impl Differing {
    fn note(
        &mut self,
        name: &str,
        is_right: bool,
        found: impl std::fmt::Debug,
        wanted: impl std::fmt::Debug,
    ) {
        if !is_right {
            self.0.push(format!("{name} is {found:?} and should be {wanted:?}"));
        }
    }

    fn into_result(self, what: &str) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        Err(Error::conflict(format!(
            "{what} exists with other settings: {}; change it there, or use another prefix",
            self.0.join(", ")
        )))
    }
}

fn vanished(what: &str) -> Error {
    Error::unavailable(format!("{what} went away while it was being created; try again"))
}

fn nanoseconds(length: Duration) -> u64 {
    u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)
}
