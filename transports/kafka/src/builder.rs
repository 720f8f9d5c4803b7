//! What can be set, with its defaults and its reasons.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use punctual::wire::Wrapping;
use punctual::{Clock, Result, SystemClock};

use crate::KafkaTransport;
use crate::address::Address;
use crate::names::check_prefix;
use crate::settings::Settings;

/// How long a call waits for the brokers, unless said otherwise.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);
/// How long what is in hand may be settled before its partition moves, unless said otherwise.
pub const REVOKE_PATIENCE_DEFAULT: Duration = Duration::from_secs(5);
/// How many records of a partition may stand behind one that is not settled, unless said otherwise.
pub const WINDOW_MAX_DEFAULT: usize = 10_000;
/// The largest body, unless said otherwise: what a broker takes by default, less room for the headers.
pub const PAYLOAD_MAX_DEFAULT: usize = 960 * 1_024;

/// Makes a [`KafkaTransport`].
#[must_use]
pub struct KafkaBuilder {
    address: String,
    prefix: String,
    declare: bool,
    partitions: Option<i32>,
    replication: Option<i32>,
    timeout: Duration,
    join_patience: Duration,
    revoke_patience: Duration,
    window_max: usize,
    payload_max: usize,
    properties: BTreeMap<String, String>,
    wrapping: Option<Wrapping>,
    clock: Arc<dyn Clock>,
}

impl KafkaBuilder {
    pub(crate) fn new(address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
            prefix: String::new(),
            declare: true,
            partitions: None,
            replication: None,
            timeout: TIMEOUT_DEFAULT,
            join_patience: Duration::ZERO,
            revoke_patience: REVOKE_PATIENCE_DEFAULT,
            window_max: WINDOW_MAX_DEFAULT,
            payload_max: PAYLOAD_MAX_DEFAULT,
            properties: BTreeMap::new(),
            wrapping: None,
            clock: Arc::new(SystemClock),
        }
    }

    /// What every name on the broker begins with; nothing by default.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Whether topics that are missing are made. If not, a missing one is refused when it is used first.
    pub fn declare(mut self, declare: bool) -> Self {
        self.declare = declare;
        self
    }

    /// How many partitions a topic has: as many consumers of a group can share it. The broker's own default
    /// if not said. A topic that exists with another number is refused.
    pub fn partitions(mut self, count: i32) -> Self {
        self.partitions = Some(count);
        self
    }

    /// On how many brokers a topic that is made is kept; the broker's own default if not said.
    pub fn replication(mut self, count: i32) -> Self {
        self.replication = Some(count);
        self
    }

    /// How long a call waits for the brokers: connecting, asking, declaring, and a confirmation.
    pub fn timeout(mut self, length: Duration) -> Self {
        self.timeout = length;
        self
    }

    /// How long `subscribe` waits until the group has taken the consumer in, which takes a broker three
    /// seconds for a new group. Zero by default: it does not wait, and deliveries come when they come.
    pub fn join_patience(mut self, length: Duration) -> Self {
        self.join_patience = length;
        self
    }

    /// How long what is in hand may still be settled when its partition moves to another consumer. What
    /// takes longer comes again there. The whole group waits for it. Zero does not wait; it must be less than the property
    /// `max.poll.interval.ms`, which is five minutes.
    pub fn revoke_patience(mut self, length: Duration) -> Self {
        self.revoke_patience = length;
        self
    }

    /// How many records of one partition may stand behind one that is not settled. Beyond that the partition
    /// waits for it; all of them come again after a crash.
    pub fn window_max(mut self, count: usize) -> Self {
        self.window_max = count;
        self
    }

    /// The largest body, in bytes. The topic's `max.message.bytes` must be 64 KiB more, for the headers.
    pub fn payload_max(mut self, bytes: usize) -> Self {
        self.payload_max = bytes;
        self
    }

    /// A property of the client library, librdkafka, such as `compression.type` or `session.timeout.ms`. Those
    /// that the guarantees rest on are refused.
    pub fn property(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.insert(name.into(), value.into());
        self
    }

    /// What messages are published in; see [`Wrapping`].
    pub fn envelope(mut self, envelope: impl Into<Wrapping>) -> Self {
        self.wrapping = Some(envelope.into());
        self
    }

    /// The clock by which it waits; the system's by default.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Connects, and returns when a broker has answered.
    pub async fn connect(self) -> Result<KafkaTransport> {
        KafkaTransport::connect(self.settings()?).await
    }

    fn settings(self) -> Result<Settings> {
        check_prefix(&self.prefix)?;
        let (address, wrapping) = Wrapping::at(&self.address, self.wrapping)?;
        let settings = Settings {
            address: Address::parse(&address)?,
            prefix: self.prefix,
            declare: self.declare,
            partitions: self.partitions,
            replication: self.replication,
            timeout: self.timeout,
            join_patience: self.join_patience,
            revoke_patience: self.revoke_patience,
            window_max: self.window_max,
            payload_max: self.payload_max,
            properties: self.properties,
            wrapping,
            clock: self.clock,
        };
        settings.check()?;
        Ok(settings)
    }
}

impl fmt::Debug for KafkaBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address and the properties may have secrets in them.
        f.debug_struct("KafkaBuilder")
            .field("prefix", &self.prefix)
            .field("declare", &self.declare)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(builder: KafkaBuilder) -> String {
        builder.settings().unwrap_err().to_string()
    }

    #[test]
    fn what_cannot_work_is_refused_before_anything_is_tried() {
        let builder = || KafkaBuilder::new("localhost:9092");
        assert!(refused(builder().prefix("a b")).contains("' '"));
        assert!(refused(builder().partitions(0)).contains("partitions is 0"));
        assert!(refused(builder().replication(-2)).contains("replication is -2"));
        assert!(refused(builder().window_max(0)).contains("window_max"));
        let own = refused(builder().property("enable.auto.commit", "true"));
        assert!(own.contains("enable.auto.commit") && own.contains("settled"), "{own}");
        assert!(builder().property("compression.type", "gzip").settings().is_ok());
    }

    #[test]
    fn patience_ends_before_the_broker_puts_the_consumer_out() {
        let seconds =
            |count| KafkaBuilder::new("localhost:9092").revoke_patience(Duration::from_secs(count));
        let shorter = |count| seconds(count).property("max.poll.interval.ms", "20000");
        for (builder, words) in
            [(seconds(300), ["300s", "max.poll.interval.ms"]), (shorter(20), ["20s", "shorten it"])]
        {
            let error = refused(builder);
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
        for builder in
            [seconds(299), shorter(19), seconds(400).property("max.poll.interval.ms", "401000")]
        {
            assert!(builder.settings().is_ok());
        }
    }

    #[test]
    fn nothing_that_is_shown_has_a_secret_in_it() {
        let builder =
            KafkaBuilder::new("kafka://ada:secret@h:1").property("sasl.password", "secret");
        assert!(!format!("{builder:?}").contains("secret"));
        assert!(!format!("{:?}", builder.settings().unwrap()).contains("secret"));
    }
}
