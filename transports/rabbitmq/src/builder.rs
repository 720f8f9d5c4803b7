//! Making a transport: what can be said, what it is unless said, and what is refused at once.

use std::sync::Arc;
use std::time::Duration;

use punctual::wire::Wrapping;
use punctual::{Clock, Error, Result, SystemClock};

use crate::RabbitmqTransport;
use crate::settings::{QueueKind, Settings, address};

/// In front of every name on the broker, unless said otherwise.
pub const PREFIX_DEFAULT: &str = "punctual.";
/// The longest delay that waits on the broker, unless said otherwise.
pub const DELAY_MAX_DEFAULT: Duration = Duration::from_hours(1);
/// The largest body, unless said otherwise: what RabbitMQ 4 takes by default.
pub const PAYLOAD_MAX_DEFAULT: usize = 16 * 1024 * 1024;
/// How long the broker may take to answer, unless said otherwise.
pub const PATIENCE_DEFAULT: Duration = Duration::from_secs(30);

/// The longest prefix: the rest of 255 bytes is for topics and groups.
const PREFIX_BYTES_MAX: usize = 80;
/// A length of delay is a queue of its own; beyond this there would be too many.
const DELAY_MAX_LIMIT: Duration = Duration::from_hours(24);
/// A connection that says nothing for this long, twice, is gone.
const HEARTBEAT_SECONDS: u16 = 20;

/// Makes a [`RabbitmqTransport`].
#[derive(Clone, Debug)]
#[must_use]
pub struct RabbitmqBuilder {
    address: String,
    prefix: String,
    queues: QueueKind,
    declare: bool,
    delay_max: Duration,
    payload_max: usize,
    patience: Duration,
    wrapping: Option<Wrapping>,
    clock: Arc<dyn Clock>,
}

impl RabbitmqBuilder {
    pub(crate) fn new(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            prefix: PREFIX_DEFAULT.to_owned(),
            queues: QueueKind::Quorum,
            declare: true,
            delay_max: DELAY_MAX_DEFAULT,
            payload_max: PAYLOAD_MAX_DEFAULT,
            patience: PATIENCE_DEFAULT,
            wrapping: None,
            clock: Arc::new(SystemClock),
        }
    }

    /// In front of the name of everything it has on the broker, [`PREFIX_DEFAULT`] unless said otherwise.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// How the broker keeps the messages of a group; quorum queues unless said otherwise.
    pub fn queues(mut self, queues: QueueKind) -> Self {
        self.queues = queues;
        self
    }

    /// Whether it declares what it needs on the broker; it does unless said otherwise. When it may not,
    /// it only checks, and delays are left to the storage.
    pub fn declare(mut self, declare: bool) -> Self {
        self.declare = declare;
        self
    }

    /// The longest delay of a requeue that waits on the broker, at most a day; zero leaves all of them to
    /// the storage. [`DELAY_MAX_DEFAULT`] unless said otherwise.
    pub fn delay_max(mut self, delay_max: Duration) -> Self {
        self.delay_max = delay_max;
        self
    }

    /// The largest body in bytes. Should not be more than the broker's `max_message_size`;
    /// [`PAYLOAD_MAX_DEFAULT`] unless said otherwise.
    pub fn payload_max(mut self, payload_max: usize) -> Self {
        self.payload_max = payload_max;
        self
    }

    /// How long the broker may take to answer a call before it counts as out of reach;
    /// [`PATIENCE_DEFAULT`] unless said otherwise.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// What messages are published in; see [`Wrapping`].
    pub fn envelope(mut self, envelope: impl Into<Wrapping>) -> Self {
        self.wrapping = Some(envelope.into());
        self
    }

    /// For waiting and timeouts; the system's unless said otherwise.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Connects; fails when something is wrong and says what, or when the broker is out of reach.
    pub async fn connect(self) -> Result<RabbitmqTransport> {
        let (text, wrapping) = Wrapping::at(&self.address, self.wrapping)?;
        let mut uri = address(&text)?;
        let Self { prefix, queues, declare, delay_max, payload_max, patience, clock, .. } = self;
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
        if patience.is_zero() {
            return Err(Error::invalid("a patience of zero gives the broker no time to answer"));
        }
        uri.query.heartbeat.get_or_insert(HEARTBEAT_SECONDS);
        let settings = Settings {
            uri,
            prefix,
            queues,
            declare,
            delay_max,
            payload_max,
            patience,
            wrapping,
            clock,
        };
        RabbitmqTransport::open(settings).await
    }
}
