//! Topology on the broker: topics are looked up, created if allowed, compared with the settings, and listed. A topic
//! that was found is cached.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use punctual::clock::add;
use punctual::model::Topic;
use punctual::{Error, Result};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::metadata::Metadata;
use rdkafka::producer::Producer as _;

use crate::error;
use crate::last_error::LastError;
use crate::names::{GroupNames, topic_of};
use crate::producer::Producer;
use crate::settings::Settings;

/// Pause between lookups of a topic that was just created.
const LOOKUP_PAUSE: Duration = Duration::from_millis(50);
/// Dead letters are few, and are read in order.
const DEAD_LETTER_PARTITIONS: i32 = 1;
/// Leaves a number to the broker.
const BROKERS_CHOICE: i32 = -1;

/// Topics of a cluster.
pub(crate) struct Topology {
    settings: Arc<Settings>,
    producer: Arc<Producer>,
    admin: AdminClient<LastError>,
    last_error: LastError,
    known: Mutex<BTreeSet<String>>,
}

/// A required topic.
struct RequiredTopic<'a> {
    name: &'a str,
    /// Whether it holds dead letters or invalid messages.
    dead_letters: bool,
}

impl Topology {
    pub(crate) fn new(settings: Arc<Settings>, producer: Arc<Producer>) -> Result<Self> {
        let last_error = LastError::default();
        let admin = settings
            .admin()
            .create_with_context(last_error.clone())
            .map_err(|error| error::map_error(&error, "connect", settings.error_context(None)))?;
        Ok(Self { settings, producer, admin, last_error, known: Mutex::default() })
    }

    /// Ensures that a topic exists.
    pub(crate) async fn ensure_topic(&self, name: &str) -> Result<()> {
        self.ensure(&RequiredTopic { name, dead_letters: false }).await
    }

    /// Ensures that a topic and the dead-letter topics of a group exist.
    pub(crate) async fn ensure_group(&self, names: &GroupNames) -> Result<()> {
        self.ensure(&RequiredTopic { name: &names.topic, dead_letters: false }).await?;
        self.ensure(&RequiredTopic { name: &names.dead, dead_letters: true }).await?;
        self.ensure(&RequiredTopic { name: &names.invalid, dead_letters: true }).await
    }

    /// Removes topics from the cache that turned out to be missing.
    pub(crate) fn forget<'a>(&self, names: impl IntoIterator<Item = &'a String>) {
        let mut known = self.lock();
        for name in names {
            known.remove(name);
        }
    }

    /// Returns the topics that begin with the prefix.
    pub(crate) async fn topics(&self) -> Result<Vec<Topic>> {
        let metadata = self.metadata(None).await?;
        let names = metadata.topics().iter().map(rdkafka::metadata::MetadataTopic::name);
        let mut topics: Vec<Topic> =
            names.filter_map(|name| topic_of(&self.settings.prefix, name)).collect();
        topics.sort();
        Ok(topics)
    }

    async fn ensure(&self, required: &RequiredTopic<'_>) -> Result<()> {
        if self.lock().contains(required.name) {
            return Ok(());
        }
        match self.partitions(required.name).await? {
            Some(found) => self.check_partitions(required, found)?,
            None if self.settings.declare => self.declare(required).await?,
            None => {
                return Err(Error::not_found(format!(
                    "the topic {:?} does not exist on Kafka at {}; create it, or allow the transport to \
                     create topics with declare(true)",
                    required.name, self.settings.address.servers
                )));
            }
        }
        self.lock().insert(required.name.to_owned());
        Ok(())
    }

    /// Refuses a topic whose number of partitions differs from the configured one.
    fn check_partitions(&self, required: &RequiredTopic<'_>, found: usize) -> Result<()> {
        let expected = self.settings.partitions.filter(|_| !required.dead_letters);
        match expected.and_then(|count| usize::try_from(count).ok()) {
            Some(expected) if expected != found => Err(Error::conflict(format!(
                "the topic {:?} exists with {found} partitions, but {expected} are configured; set \
                 partitions to {found}, or change the topic on the broker",
                required.name
            ))),
            _ => Ok(()),
        }
    }

    async fn declare(&self, required: &RequiredTopic<'_>) -> Result<()> {
        let partitions = if required.dead_letters {
            Some(DEAD_LETTER_PARTITIONS)
        } else {
            self.settings.partitions
        };
        let replicas = TopicReplication::Fixed(self.settings.replicas.unwrap_or(BROKERS_CHOICE));
        let mut topic =
            NewTopic::new(required.name, partitions.unwrap_or(BROKERS_CHOICE), replicas);
        if required.dead_letters {
            // Dead letters stay until they are removed by hand.
            topic = topic.set("retention.ms", "-1");
        }
        let timeout = Some(self.settings.timeout);
        let options = AdminOptions::new().request_timeout(timeout).operation_timeout(timeout);
        let results = self.admin.create_topics([&topic], &options).await.map_err(|error| {
            let reason = error::code_of(&error).and_then(|code| self.last_error.reason(code));
            error::map_error(&error, "declare", self.settings.error_context(reason.as_deref()))
        })?;
        for result in results {
            match result {
                // Another process created it first.
                Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
                Err((name, code)) => {
                    let reason = format!("the topic {name:?} cannot be created");
                    let context = self.settings.error_context(Some(&reason));
                    return Err(error::map_code(code, "declare", context));
                }
            }
        }
        self.wait_until_visible(required.name).await
    }

    /// Waits until the brokers report a topic that was created.
    async fn wait_until_visible(&self, name: &str) -> Result<()> {
        let clock = &*self.settings.clock;
        let until = add(clock.now(), self.settings.timeout);
        while self.partitions(name).await?.is_none() {
            if clock.now() >= until {
                return Err(Error::unavailable(format!(
                    "the topic {name:?} was created but does not appear; check the brokers' logs"
                )));
            }
            clock.sleep_until(add(clock.now(), LOOKUP_PAUSE)).await;
        }
        Ok(())
    }

    /// Returns the number of partitions of a topic; none when it is missing or not ready.
    async fn partitions(&self, name: &str) -> Result<Option<usize>> {
        let metadata = self.metadata(Some(name.to_owned())).await?;
        let Some(topic) = metadata.topics().first() else { return Ok(None) };
        let code = topic.error().map(RDKafkaErrorCode::from);
        match code.filter(|code| !is_absent(*code)) {
            Some(code) => {
                let reason = format!("the topic {name:?} cannot be read");
                Err(error::map_code(code, "declare", self.settings.error_context(Some(&reason))))
            }
            None => Ok(Some(topic.partitions().len()).filter(|count| code.is_none() && *count > 0)),
        }
    }

    /// Fetches metadata of one topic, or of all.
    pub(crate) async fn metadata(&self, topic: Option<String>) -> Result<Metadata> {
        let (client, timeout) = (self.producer.client(), self.settings.timeout);
        // The client library has no asynchronous form of this call.
        let request = tokio::task::spawn_blocking(move || {
            client.client().fetch_metadata(topic.as_deref(), timeout)
        });
        match request.await {
            Ok(Ok(metadata)) => Ok(metadata),
            Ok(Err(error)) => {
                let last_error = self.producer.last_error();
                let reason = error::code_of(&error).and_then(|code| last_error.reason(code));
                Err(error::map_error(
                    &error,
                    "fetch metadata",
                    self.settings.error_context(reason.as_deref()),
                ))
            }
            Err(error) => {
                Err(Error::internal(format!("the metadata request to Kafka was aborted: {error}")))
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_absent(code: RDKafkaErrorCode) -> bool {
    matches!(
        code,
        RDKafkaErrorCode::UnknownTopicOrPartition
            | RDKafkaErrorCode::UnknownTopic
            | RDKafkaErrorCode::LeaderNotAvailable
    )
}
