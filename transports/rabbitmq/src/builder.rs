//! Builder of the RabbitMQ transport: options, their defaults, and the checks made before connecting.

use std::time::Duration;

use punctual::backend::transport::settings::CommonSettings;
use punctual::{Error, Result, common_transport_options};

use crate::settings::{QueueKind, Settings};
use crate::{RabbitmqTransport, address};

/// Default prefix of every name on the broker.
pub const PREFIX_DEFAULT: &str = "punctual.";
/// Default of the longest requeue delay that waits on the broker.
pub const DELAY_MAX_DEFAULT: Duration = Duration::from_hours(1);
/// Default size limit of a body: what RabbitMQ 4 accepts by default.
pub const PAYLOAD_MAX_DEFAULT: usize = 16 * 1024 * 1024;
/// Default timeout of one call to the broker.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// Longest prefix: the rest of 255 bytes is for topics and groups.
const PREFIX_BYTES_MAX: usize = 80;
/// Upper limit of `delay_max`: each delay has a queue of its own, and beyond this there would be too many.
const DELAY_MAX_LIMIT: Duration = Duration::from_hours(24);
/// AMQP heartbeat: a connection that is silent for two of these intervals is considered lost.
const HEARTBEAT_SECONDS: u16 = 20;

/// Builder of a [`RabbitmqTransport`].
#[derive(Clone, Debug)]
#[must_use]
pub struct RabbitmqBuilder {
    common: CommonSettings,
    queues: QueueKind,
    delay_max: Duration,
}

impl RabbitmqBuilder {
    pub(crate) fn new(address: &str) -> Self {
        Self {
            common: CommonSettings {
                prefix: PREFIX_DEFAULT.to_owned(),
                payload_max: PAYLOAD_MAX_DEFAULT,
                timeout: TIMEOUT_DEFAULT,
                ..CommonSettings::new(address)
            },
            queues: QueueKind::Quorum,
            delay_max: DELAY_MAX_DEFAULT,
        }
    }

    /// Sets the type of the queues of groups; default [`QueueKind::Quorum`].
    pub fn queues(mut self, queues: QueueKind) -> Self {
        self.queues = queues;
        self
    }

    /// Sets the longest requeue delay that waits on the broker, at most a day; zero leaves all delays to the
    /// storage. Default [`DELAY_MAX_DEFAULT`].
    pub fn delay_max(mut self, delay_max: Duration) -> Self {
        self.delay_max = delay_max;
        self
    }

    /// Connects. Fails when an option is invalid or the broker is unreachable.
    pub async fn connect(self) -> Result<RabbitmqTransport> {
        self.common.check(usize::MAX)?;
        let (text, wrapping) = self.common.address_and_envelope()?;
        let mut uri = address::parse(&text)?;
        let Self { common, queues, delay_max } = self;
        let CommonSettings { prefix, declare, timeout, payload_max, clock, .. } = common;
        if prefix.len() > PREFIX_BYTES_MAX || prefix.chars().any(char::is_control) {
            return Err(Error::invalid(format!(
                "the prefix {prefix:?} must have at most {PREFIX_BYTES_MAX} bytes, printable ones only"
            )));
        }
        if delay_max > DELAY_MAX_LIMIT {
            return Err(Error::invalid(format!(
                "the longest delay on the broker is {DELAY_MAX_LIMIT:?} and not {delay_max:?}; longer \
                 ones wait in the storage"
            )));
        }
        uri.query.heartbeat.get_or_insert(HEARTBEAT_SECONDS);
        let settings = Settings {
            uri,
            prefix,
            queues,
            declare,
            delay_max,
            payload_max,
            timeout,
            wrapping,
            clock,
        };
        RabbitmqTransport::open(settings).await
    }
}

common_transport_options! {
    RabbitmqBuilder {
        prefix: "Sets the prefix of every exchange and queue on the broker; default [`PREFIX_DEFAULT`].",
        declare: "Sets whether exchanges and queues are declared; default `true`. With `false` they are only checked, and delays are left to the storage.",
        timeout: "Sets the timeout of one call to the broker; default [`TIMEOUT_DEFAULT`].",
        payload_max: "Sets the size limit of a body in bytes. It should not exceed the broker's `max_message_size`. Default [`PAYLOAD_MAX_DEFAULT`].",
    }
}
