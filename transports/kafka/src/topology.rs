//! Topics on the broker: found, declared if allowed, compared with what was asked for, listed. What was found
//! once is not looked for again.

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

use crate::fault;
use crate::names::{GroupNames, topic_of};
use crate::producer::Producer;
use crate::settings::Settings;
use crate::trouble::Trouble;

/// How long to rest before looking again for a topic that was just made.
const LOOK_REST: Duration = Duration::from_millis(50);
/// Letters are few, and read from the oldest on.
const LETTER_PARTITIONS: i32 = 1;
/// Leaves a number to the broker.
const BROKERS_CHOICE: i32 = -1;

/// The topics of a cluster.
pub(crate) struct Topology {
    settings: Arc<Settings>,
    producer: Arc<Producer>,
    admin: AdminClient<Trouble>,
    trouble: Trouble,
    known: Mutex<BTreeSet<String>>,
}

/// A topic that is needed.
struct Wanted<'a> {
    name: &'a str,
    /// Whether it is one of dead or invalid letters.
    letters: bool,
}

impl Topology {
    pub(crate) fn new(settings: Arc<Settings>, producer: Arc<Producer>) -> Result<Self> {
        let trouble = Trouble::default();
        let admin = settings
            .admin()
            .create_with_context(trouble.clone())
            .map_err(|error| fault::from_kafka(&error, "connect", settings.at(None)))?;
        Ok(Self { settings, producer, admin, trouble, known: Mutex::default() })
    }

    /// Sees to it that a topic is there.
    pub(crate) async fn ensure_topic(&self, name: &str) -> Result<()> {
        self.ensure(&Wanted { name, letters: false }).await
    }

    /// Sees to it that a topic is there, and the places for a group's letters.
    pub(crate) async fn ensure_group(&self, names: &GroupNames) -> Result<()> {
        self.ensure(&Wanted { name: &names.topic, letters: false }).await?;
        self.ensure(&Wanted { name: &names.dead, letters: true }).await?;
        self.ensure(&Wanted { name: &names.invalid, letters: true }).await
    }

    /// Looks for topics again that turned out to be missing after all.
    pub(crate) fn forget<'a>(&self, names: impl IntoIterator<Item = &'a String>) {
        let mut known = self.lock();
        for name in names {
            known.remove(name);
        }
    }

    /// The topics of our prefix.
    pub(crate) async fn topics(&self) -> Result<Vec<Topic>> {
        let metadata = self.metadata(None).await?;
        let names = metadata.topics().iter().map(rdkafka::metadata::MetadataTopic::name);
        let mut topics: Vec<Topic> =
            names.filter_map(|name| topic_of(&self.settings.prefix, name)).collect();
        topics.sort();
        Ok(topics)
    }

    async fn ensure(&self, wanted: &Wanted<'_>) -> Result<()> {
        if self.lock().contains(wanted.name) {
            return Ok(());
        }
        match self.partitions(wanted.name).await? {
            Some(found) => self.compare(wanted, found)?,
            None if self.settings.declare => self.declare(wanted).await?,
            None => {
                return Err(Error::not_found(format!(
                    "the topic {:?} does not exist on Kafka at {}; create it, or allow the transport to \
                     declare what it needs",
                    wanted.name, self.settings.address.servers
                )));
            }
        }
        self.lock().insert(wanted.name.to_owned());
        Ok(())
    }

    /// What exists must be as it was asked for, where it was asked for.
    fn compare(&self, wanted: &Wanted<'_>, found: usize) -> Result<()> {
        let asked = self.settings.partitions.filter(|_| !wanted.letters);
        match asked.and_then(|asked| usize::try_from(asked).ok()) {
            Some(asked) if asked != found => Err(Error::conflict(format!(
                "the topic {:?} exists with {found} partitions, and {asked} were asked for; ask for \
                 {found}, or change the topic on the broker",
                wanted.name
            ))),
            _ => Ok(()),
        }
    }

    async fn declare(&self, wanted: &Wanted<'_>) -> Result<()> {
        let partitions =
            if wanted.letters { Some(LETTER_PARTITIONS) } else { self.settings.partitions };
        let replication =
            TopicReplication::Fixed(self.settings.replication.unwrap_or(BROKERS_CHOICE));
        let mut topic =
            NewTopic::new(wanted.name, partitions.unwrap_or(BROKERS_CHOICE), replication);
        if wanted.letters {
            // A letter stays until somebody takes it away.
            topic = topic.set("retention.ms", "-1");
        }
        let timeout = Some(self.settings.timeout);
        let options = AdminOptions::new().request_timeout(timeout).operation_timeout(timeout);
        let answers = self.admin.create_topics([&topic], &options).await.map_err(|error| {
            let reason = fault::code_of(&error).and_then(|code| self.trouble.reason(code));
            fault::from_kafka(&error, "declare", self.settings.at(reason.as_deref()))
        })?;
        for answer in answers {
            match answer {
                // Somebody else was quicker.
                Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
                Err((name, code)) => {
                    let reason = format!("the topic {name:?} cannot be made");
                    let at = self.settings.at(Some(&reason));
                    return Err(fault::from_code(code, "declare", at));
                }
            }
        }
        self.appeared(wanted.name).await
    }

    /// Waits until every broker can know of a topic that was made.
    async fn appeared(&self, name: &str) -> Result<()> {
        let clock = &*self.settings.clock;
        let until = add(clock.now(), self.settings.timeout);
        while self.partitions(name).await?.is_none() {
            if clock.now() >= until {
                return Err(Error::unavailable(format!(
                    "the topic {name:?} was made and does not appear; look at the brokers' logs"
                )));
            }
            clock.sleep_until(add(clock.now(), LOOK_REST)).await;
        }
        Ok(())
    }

    /// How many partitions a topic has; none when it is not there, or not ready.
    async fn partitions(&self, name: &str) -> Result<Option<usize>> {
        let metadata = self.metadata(Some(name.to_owned())).await?;
        let Some(topic) = metadata.topics().first() else { return Ok(None) };
        let code = topic.error().map(RDKafkaErrorCode::from);
        match code.filter(|code| !is_absent(*code)) {
            Some(code) => {
                let reason = format!("the topic {name:?} cannot be looked at");
                Err(fault::from_code(code, "declare", self.settings.at(Some(&reason))))
            }
            None => Ok(Some(topic.partitions().len()).filter(|count| code.is_none() && *count > 0)),
        }
    }

    /// Asks the cluster; of one topic, or of all.
    pub(crate) async fn metadata(&self, topic: Option<String>) -> Result<Metadata> {
        let (client, timeout) = (self.producer.client(), self.settings.timeout);
        // The call waits for the answer, and there is no other form of it.
        let asking = tokio::task::spawn_blocking(move || {
            client.client().fetch_metadata(topic.as_deref(), timeout)
        });
        match asking.await {
            Ok(Ok(metadata)) => Ok(metadata),
            Ok(Err(error)) => {
                let trouble = self.producer.trouble();
                let reason = fault::code_of(&error).and_then(|code| trouble.reason(code));
                Err(fault::from_kafka(&error, "ask", self.settings.at(reason.as_deref())))
            }
            Err(error) => Err(Error::internal(format!("asking Kafka ended early: {error}"))),
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
