//! Settings of a transport, and the properties of the client library derived from them. Properties that the delivery
//! guarantees depend on cannot be overridden.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use punctual::backend::wire::Wrapping;
use punctual::{Clock, Error, Result};
use rdkafka::ClientConfig;

use crate::address::Address;
use crate::error::ErrorContext;

/// Room for the headers and the key of a record, in addition to its body.
const ENVELOPE_MAX: usize = 64 * 1_024;
/// Commit interval. Records settled since the last commit are delivered again after a crash.
const COMMIT_INTERVAL: Duration = Duration::from_millis(250);
/// Limits of what the client fetches ahead, in KiB and in records.
const FETCH_AHEAD_MAX_KIB: &str = "16384";
const FETCH_AHEAD_MAX: &str = "10000";
/// The property that limits the time between two polls of a consumer, and its default in the library.
const POLL_INTERVAL: &str = "max.poll.interval.ms";
const POLL_INTERVAL_DEFAULT: Duration = Duration::from_secs(300);

/// Reserved properties, each with the option to use instead.
const RESERVED: &[(&str, &str)] = &[
    ("bootstrap.servers", "the address"),
    ("metadata.broker.list", "the address"),
    ("group.id", "the group of the subscription"),
    ("enable.auto.commit", "nothing: offsets are committed when they are settled"),
    ("enable.auto.offset.store", "nothing: offsets are committed when they are settled"),
    ("enable.partition.eof", "nothing: the end of a partition is not reported"),
    ("allow.auto.create.topics", "`declare`"),
    ("acks", "nothing: a message is accepted when all replicas in sync have it"),
    ("request.required.acks", "nothing: a message is accepted when all replicas in sync have it"),
    ("message.timeout.ms", "`timeout`"),
    ("delivery.timeout.ms", "`timeout`"),
    ("message.max.bytes", "`payload_max`"),
    ("transactional.id", "nothing: transactions are not used"),
];

/// Settings of a transport.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) address: Address,
    pub(crate) prefix: String,
    pub(crate) declare: bool,
    pub(crate) partitions: Option<i32>,
    pub(crate) replicas: Option<i32>,
    pub(crate) timeout: Duration,
    pub(crate) join_timeout: Duration,
    pub(crate) revoke_timeout: Duration,
    pub(crate) uncommitted_max: usize,
    pub(crate) payload_max: usize,
    pub(crate) properties: BTreeMap<String, String>,
    pub(crate) wrapping: Wrapping,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Settings {
    /// Refuses settings that cannot work.
    pub(crate) fn check(&self) -> Result<()> {
        for (name, instead) in RESERVED {
            if self.properties.contains_key(*name) {
                return Err(Error::invalid(format!(
                    "the property {name:?} is the transport's own; use {instead}"
                )));
            }
        }
        for (what, number) in [("partitions", self.partitions), ("replicas", self.replicas)] {
            if let Some(number) = number.filter(|number| *number < 1) {
                return Err(Error::invalid(format!(
                    "{what} is {number}; set at least 1, or leave it out to use the broker's default"
                )));
            }
        }
        if self.uncommitted_max == 0 {
            return Err(Error::invalid(
                "an uncommitted_max of zero pauses every partition; use at least 1",
            ));
        }
        self.check_revoke_timeout()
    }

    /// Refuses a `revoke_timeout` that is not less than the poll interval: the broker would remove the consumer from
    /// the group during the wait, and nothing could be settled any more.
    fn check_revoke_timeout(&self) -> Result<()> {
        let set = self.properties.get(POLL_INTERVAL);
        // The client library refuses a value that is not a number with its own error.
        let set = set.and_then(|text| text.trim().parse().ok()).map(Duration::from_millis);
        let (timeout, limit) = (self.revoke_timeout, set.unwrap_or(POLL_INTERVAL_DEFAULT));
        if timeout < limit {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "a revoke_timeout of {timeout:?} is not less than {POLL_INTERVAL}, {limit:?}, after which the \
             broker revokes the partitions in any case; shorten it, or set a longer {POLL_INTERVAL}"
        )))
    }

    /// Returns the properties common to all clients.
    fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.address.servers);
        config.set("client.id", "punctual");
        config.set("allow.auto.create.topics", "false");
        config.set("socket.keepalive.enable", "true");
        config.set("reconnect.backoff.max.ms", "1000");
        config.set("message.max.bytes", (self.payload_max + ENVELOPE_MAX).to_string());
        let protocol = match (&self.address.login, self.address.tls) {
            (None, false) => "plaintext",
            (None, true) => "ssl",
            (Some(_), false) => "sasl_plaintext",
            (Some(_), true) => "sasl_ssl",
        };
        config.set("security.protocol", protocol);
        if let Some(login) = &self.address.login {
            config.set("sasl.mechanism", "PLAIN");
            config.set("sasl.username", &login.user).set("sasl.password", &login.password);
        }
        config
    }

    /// Returns the properties of the producing client.
    pub(crate) fn producer(&self) -> ClientConfig {
        let mut config = self.client();
        config.set("acks", "all").set("enable.idempotence", "true");
        // The partitioner of the Java clients: the same key goes to the same partition.
        config.set("partitioner", "murmur2_random");
        config.set("linger.ms", "1");
        config.set("message.timeout.ms", millis(self.timeout));
        self.with_properties(config, is_of_consumers)
    }

    /// Returns the properties of the consuming client of a group.
    pub(crate) fn consumer(&self, group: &str) -> ClientConfig {
        let mut config = self.client();
        config.set("group.id", group);
        // A new group starts with the oldest record, so that nothing published before it existed is lost.
        config.set("auto.offset.reset", "earliest");
        // Only partitions that move are revoked when a group changes.
        config.set("partition.assignment.strategy", "cooperative-sticky");
        config.set("enable.auto.commit", "true").set("enable.auto.offset.store", "false");
        config.set("auto.commit.interval.ms", millis(COMMIT_INTERVAL));
        config.set("queued.min.messages", FETCH_AHEAD_MAX);
        config.set("queued.max.messages.kbytes", FETCH_AHEAD_MAX_KIB);
        config.set("fetch.error.backoff.ms", "100");
        // Without it a partition whose read-ahead queue is full pauses for a second, however fast it is drained.
        config.set("fetch.queue.backoff.ms", "20");
        self.with_properties(config, is_of_producers)
    }

    /// Returns the properties of the administrative client.
    pub(crate) fn admin(&self) -> ClientConfig {
        self.with_properties(self.client(), |name| is_of_consumers(name) || is_of_producers(name))
    }

    /// Adds the properties set by the user, except those of other kinds of clients.
    fn with_properties(
        &self,
        mut config: ClientConfig,
        foreign: impl Fn(&str) -> bool,
    ) -> ClientConfig {
        for (name, value) in self.properties.iter().filter(|(name, _)| !foreign(name)) {
            config.set(name, value);
        }
        config
    }

    /// Returns the context of an error text.
    pub(crate) fn error_context<'a>(&'a self, reason: Option<&'a str>) -> ErrorContext<'a> {
        ErrorContext { servers: &self.address.servers, reason }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The login and the properties may contain secrets.
        f.debug_struct("Settings")
            .field("servers", &self.address.servers)
            .field("prefix", &self.prefix)
            .field("declare", &self.declare)
            .finish_non_exhaustive()
    }
}

/// The client library logs a warning for properties of another kind of client.
fn is_of_consumers(name: &str) -> bool {
    ["session.", "heartbeat.", "group.", "fetch.", "queued.", "auto.", "partition.assignment."]
        .iter()
        .chain(&["max.poll.", "isolation.", "check.crcs", "client.rack"])
        .any(|start| name.starts_with(start))
}

fn is_of_producers(name: &str) -> bool {
    [
        "linger.",
        "batch.",
        "compression.",
        "queue.buffering.",
        "partitioner",
        "sticky.",
        "message.send.",
    ]
    .iter()
    .chain(&["enable.idempotence", "enable.gapless.", "retries", "retry.", "max.in.flight"])
    .any(|start| name.starts_with(start))
}

fn millis(duration: Duration) -> String {
    duration.as_millis().to_string()
}
