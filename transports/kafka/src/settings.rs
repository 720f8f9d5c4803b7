//! What was set for a transport, and the properties of the client library that follow from it. Some of them
//! are what the guarantees rest on; those cannot be set otherwise.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use punctual::wire::Wrapping;
use punctual::{Clock, Error, Result};
use rdkafka::ClientConfig;

use crate::address::Address;
use crate::fault::At;

/// Room for the headers and the key of a record, beside its body.
const ENVELOPE_MAX: usize = 64 * 1_024;
/// How often what was settled is told to the broker. What was settled since comes again after a crash.
const COMMIT_INTERVAL: Duration = Duration::from_millis(250);
/// The most the client fetches ahead of what was asked for, in KiB and in records.
const AHEAD_MAX_KIB: &str = "16384";
const AHEAD_MAX: &str = "10000";
/// How long a consumer may be away from the group before it is put out, and what the library has for it.
const POLL_INTERVAL: &str = "max.poll.interval.ms";
const POLL_INTERVAL_DEFAULT: Duration = Duration::from_secs(300);

/// What the guarantees rest on, with what to use instead.
const RESERVED: &[(&str, &str)] = &[
    ("bootstrap.servers", "the address"),
    ("metadata.broker.list", "the address"),
    ("group.id", "the group of the subscription"),
    ("enable.auto.commit", "nothing: offsets are committed when they are settled"),
    ("enable.auto.offset.store", "nothing: offsets are committed when they are settled"),
    ("enable.partition.eof", "nothing: the end of a partition is no news"),
    ("allow.auto.create.topics", "`declare`"),
    ("acks", "nothing: a message is accepted when all replicas in sync have it"),
    ("request.required.acks", "nothing: a message is accepted when all replicas in sync have it"),
    ("message.timeout.ms", "`timeout`"),
    ("delivery.timeout.ms", "`timeout`"),
    ("message.max.bytes", "`payload_max`"),
    ("transactional.id", "nothing: transactions are not used"),
];

/// What was set.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) address: Address,
    pub(crate) prefix: String,
    pub(crate) declare: bool,
    pub(crate) partitions: Option<i32>,
    pub(crate) replication: Option<i32>,
    pub(crate) timeout: Duration,
    pub(crate) join_patience: Duration,
    pub(crate) revoke_patience: Duration,
    pub(crate) window_max: usize,
    pub(crate) payload_max: usize,
    pub(crate) properties: BTreeMap<String, String>,
    pub(crate) wrapping: Wrapping,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Settings {
    /// Refuses what cannot work.
    pub(crate) fn check(&self) -> Result<()> {
        for (name, instead) in RESERVED {
            if self.properties.contains_key(*name) {
                return Err(Error::invalid(format!(
                    "the property {name:?} is the transport's own; use {instead}"
                )));
            }
        }
        for (what, number) in [("partitions", self.partitions), ("replication", self.replication)] {
            if let Some(number) = number.filter(|number| *number < 1) {
                return Err(Error::invalid(format!(
                    "{what} is {number}; ask for at least one, or leave it to the broker"
                )));
            }
        }
        if self.window_max == 0 || self.payload_max == 0 || self.timeout.is_zero() {
            return Err(Error::invalid(
                "window_max, payload_max and timeout must be more than zero, or nothing could pass",
            ));
        }
        self.check_patience()
    }

    /// Refuses to wait for what is in hand until the broker has put the consumer out of the group: then its
    /// partitions have moved all the same, and nothing can be settled any more.
    fn check_patience(&self) -> Result<()> {
        let set = self.properties.get(POLL_INTERVAL);
        // What is no number, the client library refuses with words of its own.
        let set = set.and_then(|text| text.trim().parse().ok()).map(Duration::from_millis);
        let (patience, most) = (self.revoke_patience, set.unwrap_or(POLL_INTERVAL_DEFAULT));
        if patience < most {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "a revoke_patience of {patience:?} is not less than {POLL_INTERVAL}, {most:?}, after which the \
             broker takes the partitions away in any case; shorten it, or set a longer {POLL_INTERVAL}"
        )))
    }

    /// The properties of every client.
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

    /// A client that sends.
    pub(crate) fn producer(&self) -> ClientConfig {
        let mut config = self.client();
        config.set("acks", "all").set("enable.idempotence", "true");
        // The same keys in the same partitions as the clients of other languages have them.
        config.set("partitioner", "murmur2_random");
        config.set("linger.ms", "1");
        config.set("message.timeout.ms", millis(self.timeout));
        self.finished(config, is_of_consumers)
    }

    /// A client that receives for a group.
    pub(crate) fn consumer(&self, group: &str) -> ClientConfig {
        let mut config = self.client();
        config.set("group.id", group);
        // What was sent before the group was there is kept for it as well: better than to lose it.
        config.set("auto.offset.reset", "earliest");
        // Only partitions that move are taken away when a group changes.
        config.set("partition.assignment.strategy", "cooperative-sticky");
        config.set("enable.auto.commit", "true").set("enable.auto.offset.store", "false");
        config.set("auto.commit.interval.ms", millis(COMMIT_INTERVAL));
        config.set("queued.min.messages", AHEAD_MAX);
        config.set("queued.max.messages.kbytes", AHEAD_MAX_KIB);
        config.set("fetch.error.backoff.ms", "100");
        // Without it a partition that was read ahead far enough rests for a second, however fast it is worked on.
        config.set("fetch.queue.backoff.ms", "20");
        self.finished(config, is_of_producers)
    }

    /// A client that asks and declares.
    pub(crate) fn admin(&self) -> ClientConfig {
        self.finished(self.client(), |name| is_of_consumers(name) || is_of_producers(name))
    }

    /// With what was set by hand, but for what is not for this kind of client.
    fn finished(&self, mut config: ClientConfig, foreign: impl Fn(&str) -> bool) -> ClientConfig {
        for (name, value) in self.properties.iter().filter(|(name, _)| !foreign(name)) {
            config.set(name, value);
        }
        config
    }

    /// For the sentence of an error.
    pub(crate) fn at<'a>(&'a self, reason: Option<&'a str>) -> At<'a> {
        At { servers: &self.address.servers, reason }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Neither the login nor the properties, which may have secrets in them.
        f.debug_struct("Settings")
            .field("servers", &self.address.servers)
            .field("prefix", &self.prefix)
            .field("declare", &self.declare)
            .finish_non_exhaustive()
    }
}

/// The client library warns of properties that are not for its kind of client.
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

fn millis(length: Duration) -> String {
    length.as_millis().to_string()
}
