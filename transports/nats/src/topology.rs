//! Topology on the broker: a stream for each topic and a durable consumer for each group. Created when missing, if
//! allowed; existing ones are checked and never changed.
//!
//! Each topic has its own stream, because retention is a setting of the stream: a topic's messages are removed when
//! every group has settled them, its dead letters stay until they are removed by hand.

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

use crate::connection::{ApiResponse, Connection};
use crate::names::{Names, is_dead_topic};
use crate::settings::Settings;

/// Prefix of the description of a stream created by this crate; the topic follows.
const DESCRIPTION: &str = "topic ";
/// Limit of the pages of streams read to list topics; a page has 256.
const PAGES_MAX: usize = 1_000;

/// Creates and checks streams and consumers.
pub(crate) struct Topology {
    pub(crate) connection: Arc<Connection>,
    pub(crate) names: Names,
    pub(crate) settings: Settings,
    /// Subjects of topics whose streams exist and have a consumer.
    subjects: Mutex<HashMap<Arc<str>, Subject>>,
}

/// The durable consumer of a group.
#[derive(Clone, Debug)]
pub(crate) struct GroupConsumer {
    pub(crate) stream: String,
    pub(crate) name: String,
}

#[derive(Deserialize)]
struct StreamPage {
    total: usize,
    #[serde(default)]
    streams: Option<Vec<stream::Info>>,
}

impl Topology {
    pub(crate) fn new(connection: Arc<Connection>, names: Names, settings: Settings) -> Self {
        Self { connection, names, settings, subjects: Mutex::default() }
    }

    /// Whether messages survive a restart of the broker.
    pub(crate) fn is_durable(&self) -> bool {
        !self.settings.in_memory
    }

    /// Returns the subject of a topic; fails if its stream would discard messages because no group has subscribed.
    pub(crate) async fn subject(&self, topic: &str) -> Result<Subject> {
        if let Some(subject) = self.subjects().get(topic) {
            return Ok(subject.clone());
        }
        let info = self.stream(topic).await?;
        let has_subscriber = info.state.consumer_count > 0
            || info.config.retention != RetentionPolicy::Interest
            || self.settings.allow_no_subscribers;
        if !has_subscriber {
            return Err(Error::unavailable(format!(
                "no group has subscribed to the topic {topic:?} yet, so NATS would discard the message; \
                 start a consumer first, or set allow_no_subscribers(true)"
            )));
        }
        let subject = Subject::from(self.names.subject(topic));
        self.subjects().insert(Arc::from(topic), subject.clone());
        Ok(subject)
    }

    /// Clears the cache, because something was missing.
    pub(crate) fn forget(&self) {
        self.subjects().clear();
    }

    /// Returns the consumer of a group, and creates it if allowed.
    pub(crate) async fn group(&self, topic: &str, group: &str) -> Result<GroupConsumer> {
        let info = self.stream(topic).await?;
        let (stream, name) = (info.config.name, Names::consumer(group)?);
        let what = format!("the consumer {name:?} of the stream {stream:?}");
        let subject = format!("CONSUMER.INFO.{stream}.{name}");
        let found = match self.connection.call(subject, &json!({}), &what).await? {
            ApiResponse::Found(info) => info,
            ApiResponse::NotFound => {
                self.may_declare(&what)?;
                let subject = format!("CONSUMER.DURABLE.CREATE.{stream}.{name}");
                let request = json!({
                    "stream_name": stream,
                    "config": self.consumer_config(topic, group, &name),
                });
                match self.connection.call(subject, &request, &what).await? {
                    ApiResponse::Found(info) => info,
                    ApiResponse::NotFound => return Err(deleted_meanwhile(&what)),
                }
            }
        };
        self.check_consumer(&found, &what)?;
        Ok(GroupConsumer { stream, name })
    }

    /// Returns the topics that have a stream under this prefix, in order.
    pub(crate) async fn topics(&self) -> Result<Vec<Topic>> {
        let mut topics = Vec::new();
        let mut offset = 0;
        for _ in 0..PAGES_MAX {
            let request = json!({ "offset": offset });
            let response =
                self.connection.call("STREAM.LIST".to_owned(), &request, "the list of streams");
            let ApiResponse::Found(StreamPage { total, streams }) = response.await? else { break };
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
        let topic = config.description.as_deref()?.strip_prefix(DESCRIPTION)?;
        Topic::stored(topic).ok().filter(|_| self.names.owns(&config.name))
    }

    async fn stream(&self, topic: &str) -> Result<stream::Info> {
        let name = self.names.stream(topic);
        let what = format!("the stream {name:?}");
        let subject = format!("STREAM.INFO.{name}");
        let found: stream::Info = match self.connection.call(subject, &json!({}), &what).await? {
            ApiResponse::Found(info) => info,
            ApiResponse::NotFound => {
                self.may_declare(&what)?;
                let request = self.stream_config(topic, &name);
                let created =
                    self.connection.call(format!("STREAM.CREATE.{name}"), &request, &what);
                match created.await? {
                    ApiResponse::Found(info) => info,
                    ApiResponse::NotFound => return Err(deleted_meanwhile(&what)),
                }
            }
        };
        self.check_stream(topic, &found.config, &what)?;
        Ok(found)
    }

    fn stream_config(&self, topic: &str, name: &str) -> serde_json::Value {
        let settings = &self.settings;
        let is_dead = is_dead_topic(topic);
        let max_age = settings.dead_letter_retention.filter(|_| is_dead).unwrap_or_default();
        let mut config = json!({
            "name": name,
            "description": format!("{DESCRIPTION}{topic}"),
            "subjects": [self.names.subject(topic)],
            "retention": if is_dead { "limits" } else { "interest" },
            "storage": if settings.in_memory { "memory" } else { "file" },
            "num_replicas": settings.replicas,
            "discard": "new",
            "max_consumers": -1,
            "max_msgs": -1,
            "max_bytes": -1,
            "max_age": nanoseconds(max_age),
        });
        if let Some(window) = settings.deduplication_window {
            config["duplicate_window"] = json!(nanoseconds(window));
        }
        config
    }

    fn consumer_config(&self, topic: &str, group: &str, name: &str) -> serde_json::Value {
        json!({
            "durable_name": name,
            "description": format!("group {group}"),
            // A new group starts with what is published from now on; dead letters are read from the first.
            "deliver_policy": if is_dead_topic(topic) { "all" } else { "new" },
            "ack_policy": "explicit",
            "ack_wait": nanoseconds(self.settings.visibility_timeout),
            "max_deliver": -1,
            // Delayed messages count here too, and must not stop the others.
            "max_ack_pending": -1,
            "replay_policy": "instant",
        })
    }

    fn check_stream(&self, topic: &str, found: &stream::Config, what: &str) -> Result<()> {
        let mut differences = SettingDifferences::default();
        let subjects = [self.names.subject(topic)];
        differences.check("subjects", found.subjects == subjects, &found.subjects, &subjects);
        let retention =
            if is_dead_topic(topic) { RetentionPolicy::Limits } else { RetentionPolicy::Interest };
        differences.check("retention", found.retention == retention, found.retention, retention);
        let storage = if self.settings.in_memory { StorageType::Memory } else { StorageType::File };
        differences.check("storage", found.storage == storage, found.storage, storage);
        let replicas = self.settings.replicas;
        differences.check(
            "num_replicas",
            found.num_replicas == replicas,
            found.num_replicas,
            replicas,
        );
        if let Some(window) = self.settings.deduplication_window {
            let found = found.duplicate_window;
            differences.check("duplicate_window", found == window, found, window);
        }
        differences.check("no_ack", !found.no_ack, found.no_ack, false);
        differences.into_result(what)
    }

    fn check_consumer(&self, found: &consumer::Info, what: &str) -> Result<()> {
        let found = &found.config;
        let mut differences = SettingDifferences::default();
        let is_pulled = found.deliver_subject.is_none();
        differences.check("deliver_subject", is_pulled, &found.deliver_subject, None::<String>);
        let explicit = AckPolicy::Explicit;
        differences.check("ack_policy", found.ack_policy == explicit, found.ack_policy, explicit);
        let ack_wait = self.settings.visibility_timeout;
        differences.check("ack_wait", found.ack_wait == ack_wait, found.ack_wait, ack_wait);
        differences.check("max_deliver", found.max_deliver <= 0, found.max_deliver, -1);
        differences.check("max_ack_pending", found.max_ack_pending <= 0, found.max_ack_pending, -1);
        let is_unfiltered = found.filter_subject.is_empty();
        differences.check("filter_subject", is_unfiltered, &found.filter_subject, "");
        differences.into_result(what)
    }

    fn may_declare(&self, what: &str) -> Result<()> {
        if self.settings.declare {
            return Ok(());
        }
        Err(Error::not_found(format!(
            "{what} does not exist on NATS at {}; create it, or allow the transport to create it with \
             declare(true)",
            self.connection.servers
        )))
    }

    fn subjects(&self) -> std::sync::MutexGuard<'_, HashMap<Arc<str>, Subject>> {
        self.subjects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Settings that differ from the expected ones.
#[derive(Default)]
struct SettingDifferences(Vec<String>);

impl SettingDifferences {
    fn check(
        &mut self,
        name: &str,
        is_equal: bool,
        found: impl std::fmt::Debug,
        expected: impl std::fmt::Debug,
    ) {
        if !is_equal {
            self.0.push(format!("{name} is {found:?} and should be {expected:?}"));
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

fn deleted_meanwhile(what: &str) -> Error {
    Error::unavailable(format!("{what} was deleted while it was being created; try again"))
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
