//! Builder of the transport: every option with its default.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use punctual::backend::transport::settings::CommonSettings;
use punctual::{Result, common_transport_options};

use crate::KafkaTransport;
use crate::address::Address;
use crate::names::check_prefix;
use crate::settings::Settings;

/// Default of [`KafkaBuilder::revoke_timeout`].
pub const REVOKE_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);
/// Default of [`KafkaBuilder::uncommitted_max`].
pub const UNCOMMITTED_MAX_DEFAULT: usize = 10_000;
/// Default of [`KafkaBuilder::payload_max`]: what a broker accepts by default, less room for the headers.
pub const PAYLOAD_MAX_DEFAULT: usize = 960 * 1_024;

/// Builds a [`KafkaTransport`].
#[must_use]
pub struct KafkaBuilder {
    common: CommonSettings,
    partitions: Option<i32>,
    replicas: Option<i32>,
    join_timeout: Duration,
    revoke_timeout: Duration,
    uncommitted_max: usize,
    properties: BTreeMap<String, String>,
}

impl KafkaBuilder {
    pub(crate) fn new(address: impl Into<String>) -> Self {
        Self {
            common: CommonSettings {
                prefix: String::new(),
                payload_max: PAYLOAD_MAX_DEFAULT,
                ..CommonSettings::new(address)
            },
            partitions: None,
            replicas: None,
            join_timeout: Duration::ZERO,
            revoke_timeout: REVOKE_TIMEOUT_DEFAULT,
            uncommitted_max: UNCOMMITTED_MAX_DEFAULT,
            properties: BTreeMap::new(),
        }
    }

    /// Sets the number of partitions of a topic, and with it how many consumers of a group can share it. By default
    /// the broker decides. An existing topic with another number is refused.
    pub fn partitions(mut self, count: i32) -> Self {
        self.partitions = Some(count);
        self
    }

    /// Sets the replication factor of created topics. By default the broker decides.
    pub fn replicas(mut self, count: i32) -> Self {
        self.replicas = Some(count);
        self
    }

    /// Limits how long `subscribe` waits until the consumer has joined its group, which takes a broker three seconds
    /// for a new group. With zero, the default, `subscribe` does not wait and deliveries start later.
    pub fn join_timeout(mut self, timeout: Duration) -> Self {
        self.join_timeout = timeout;
        self
    }

    /// Limits how long deliveries in flight may still be settled when their partition moves to another consumer.
    /// Those that take longer are delivered again there. The whole group waits meanwhile. With zero it does not wait.
    /// It must be less than the property `max.poll.interval.ms`, which is five minutes by default.
    pub fn revoke_timeout(mut self, timeout: Duration) -> Self {
        self.revoke_timeout = timeout;
        self
    }

    /// Limits how many records of one partition may follow an unsettled one. At the limit, the partition pauses until
    /// that record is settled. After a crash all of them are delivered again.
    pub fn uncommitted_max(mut self, count: usize) -> Self {
        self.uncommitted_max = count;
        self
    }

    /// Sets a property of the client library, librdkafka, such as `compression.type` or `session.timeout.ms`.
    /// Properties that the delivery guarantees depend on are refused.
    pub fn property(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.insert(name.into(), value.into());
        self
    }

    /// Connects, and returns when a broker has responded.
    pub async fn connect(self) -> Result<KafkaTransport> {
        KafkaTransport::connect(self.settings()?).await
    }

    fn settings(self) -> Result<Settings> {
        check_prefix(&self.common.prefix)?;
        self.common.check(usize::MAX)?;
        let (address, wrapping) = self.common.address_and_envelope()?;
        let CommonSettings { prefix, declare, timeout, payload_max, clock, .. } = self.common;
        let settings = Settings {
            address: Address::parse(&address)?,
            prefix,
            declare,
            partitions: self.partitions,
            replicas: self.replicas,
            timeout,
            join_timeout: self.join_timeout,
            revoke_timeout: self.revoke_timeout,
            uncommitted_max: self.uncommitted_max,
            payload_max,
            properties: self.properties,
            wrapping,
            clock,
        };
        settings.check()?;
        Ok(settings)
    }
}

common_transport_options! {
    KafkaBuilder {
        prefix: "Sets the prefix of every name on the broker; empty by default.",
        declare: "Sets whether missing topics are created. If not, the first use of a missing topic fails.",
        timeout: "Limits one call to the brokers: connecting, metadata, creating topics, and the confirmation of a batch.",
        payload_max: "Limits the body of a message, in bytes. The topic's `max.message.bytes` must be 64 KiB more, for the headers.",
    }
}

impl fmt::Debug for KafkaBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The properties may contain secrets.
        f.debug_struct("KafkaBuilder").field("common", &self.common).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(builder: KafkaBuilder) -> String {
        builder.settings().unwrap_err().to_string()
    }

    #[test]
    fn invalid_settings_are_refused_before_connecting() {
        let builder = || KafkaBuilder::new("localhost:9092");
        assert!(refused(builder().prefix("a b")).contains("' '"));
        assert!(refused(builder().partitions(0)).contains("partitions is 0"));
        assert!(refused(builder().replicas(-2)).contains("replicas is -2"));
        assert!(refused(builder().uncommitted_max(0)).contains("uncommitted_max"));
        let own = refused(builder().property("enable.auto.commit", "true"));
        assert!(own.contains("enable.auto.commit") && own.contains("settled"), "{own}");
        assert!(builder().property("compression.type", "gzip").settings().is_ok());
    }

    #[test]
    fn the_revoke_timeout_ends_before_the_broker_removes_the_consumer() {
        let seconds =
            |count| KafkaBuilder::new("localhost:9092").revoke_timeout(Duration::from_secs(count));
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
    fn debug_output_contains_no_secret() {
        let builder =
            KafkaBuilder::new("kafka://ada:secret@h:1").property("sasl.password", "secret");
        assert!(!format!("{builder:?}").contains("secret"));
        assert!(!format!("{:?}", builder.settings().unwrap()).contains("secret"));
    }
}
