//! What can be set about the transport, and the first connection: what is wrong with the address, the
//! credentials or the broker is said here and not at the first message.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use punctual::clock::{Clock, SystemClock};
use punctual::model::{IdSource as _, Ids};
use punctual::wire::{Envelope, Wrapping};
use punctual::{Error, Result};
use tokio::sync::Mutex;

use crate::MqttTransport;
use crate::address::Address;
use crate::adoption::client;
use crate::codec::Version;
use crate::dial::{self, Dial};
use crate::names::check_prefix;
use crate::producer::Producer;

const PREFIX: &str = "punctual";
const KEEP_FOR: Duration = Duration::from_hours(7 * 24);
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const KEEP_ALIVE_MIN: Duration = Duration::from_secs(1);
const KEEP_ALIVE_MAX: Duration = Duration::from_hours(1);
const PATIENCE: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_secs(10);
const PAYLOAD_MAX: usize = 8 * 1024 * 1024;
/// An envelope of MQTT 3.1.1 is larger than its body; this much always fits into a packet.
const PAYLOAD_LIMIT: usize = 128 * 1024 * 1024;
/// What headers may add to a body before the broker finds the packet too large.
const HEADERS_ROOM: usize = 64 * 1024;

/// What can be set about the transport.
#[must_use = "a builder does nothing until it connects"]
pub struct MqttBuilder {
    address: String,
    prefix: String,
    version: Version,
    root_certificate: Option<Vec<u8>>,
    clock: Arc<dyn Clock>,
    keep_for: Duration,
    keep_alive: Duration,
    patience: Duration,
    timeout: Duration,
    payload_max: usize,
    allows_unheard: bool,
    durable: bool,
    wrapping: Option<Wrapping>,
}

impl MqttBuilder {
    pub(crate) fn new(address: String) -> Self {
        Self {
            address,
            prefix: PREFIX.to_owned(),
            version: Version::default(),
            root_certificate: None,
            clock: Arc::new(SystemClock),
            keep_for: KEEP_FOR,
            keep_alive: KEEP_ALIVE,
            patience: PATIENCE,
            timeout: TIMEOUT,
            payload_max: PAYLOAD_MAX,
            allows_unheard: false,
            durable: false,
            wrapping: None,
        }
    }

    /// How all names and client identifiers begin; `punctual` unless said otherwise.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Which MQTT is spoken; version 5 unless said otherwise.
    pub fn version(mut self, version: Version) -> Self {
        self.version = version;
        self
    }

    /// How long the broker keeps messages for a group whose consumers are all gone; 7 days unless said
    /// otherwise. In version 3.1.1 the broker alone decides.
    pub fn keep_for(mut self, length: Duration) -> Self {
        self.keep_for = length;
        self
    }

    /// How soon a connection that is dead without a word is noticed, by about twice this; 15 seconds
    /// unless said otherwise.
    pub fn keep_alive(mut self, interval: Duration) -> Self {
        self.keep_alive = interval;
        self
    }

    /// How long a consumer whose connection broke may take to come back before others adopt what it had;
    /// 10 seconds unless said otherwise.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// How long the broker may take to answer; 10 seconds unless said otherwise.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The largest body in bytes; 8 MiB unless said otherwise, 128 MiB at most, and less where the broker
    /// says so.
    pub fn payload_max(mut self, bytes: usize) -> Self {
        self.payload_max = bytes;
        self
    }

    /// Whether publishing succeeds when nobody has subscribed and the broker throws the message away; it
    /// does not, unless said otherwise. In version 3.1.1 the broker does not tell, and it always does.
    pub fn allow_unheard(mut self, allows: bool) -> Self {
        self.allows_unheard = allows;
        self
    }

    /// Whether accepted messages survive a restart of the broker, which MQTT has no way to ask; no, unless
    /// said otherwise. Mosquitto needs `persistence true`, and then keeps them when it ends in order. It is
    /// not so for Mosquitto with version 3.1.1: what is published before the consumers are back is confirmed
    /// and lost.
    pub fn durable(mut self, durable: bool) -> Self {
        self.durable = durable;
        self
    }

    /// The authority, as PEM, that the broker's certificate is checked against; without it, the ones that
    /// browsers trust.
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.root_certificate = Some(pem.into());
        self
    }

    /// What messages are published in; see [`Wrapping`].
    /// In version 3.1.1, which has no headers, events are structured ones.
    pub fn envelope(mut self, envelope: impl Into<Wrapping>) -> Self {
        self.wrapping = Some(envelope.into());
        self
    }

    /// Where time comes from; the system's clock unless said otherwise.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Connects, and refuses what cannot work.
    pub async fn connect(self) -> Result<MqttTransport> {
        self.check()?;
        let (address, wrapping) = Wrapping::at(&self.address, self.wrapping.clone())?;
        check_envelope(wrapping.envelope(), self.version)?;
        let address = Address::parse(&address)?;
        let tls = dial::encryption(&address, self.root_certificate.as_deref())?;
        let Self { version, keep_alive, timeout, clock, .. } = self;
        let dial = Dial { address, version, keep_alive, timeout, clock, tls };
        let ids = Ids::random();
        let client = client(&self.prefix, &ids.next(dial.clock.now()).to_string());
        let prefix = self.prefix;
        let link = Mutex::new(None);
        let (payload_max, allows_unheard) = (self.payload_max, self.allows_unheard);
        let mut producer =
            Producer { dial, client, prefix, payload_max, allows_unheard, wrapping, link };
        let opened = producer.open().await;
        let opened =
            opened.map_err(|trouble| trouble.told(&producer.dial.place()).during("connect"))?;
        let most = opened.welcome.packet_max.saturating_sub(HEADERS_ROOM);
        producer.payload_max = producer.payload_max.min(most);
        let (keep_for, patience, durable) = (self.keep_for, self.patience, self.durable);
        Ok(MqttTransport { producer, ids, keep_for, patience, durable })
    }

    fn check(&self) -> Result<()> {
        check_prefix(&self.prefix)?;
        let Self { keep_alive, timeout, payload_max, keep_for, .. } = self;
        if !(KEEP_ALIVE_MIN..=KEEP_ALIVE_MAX).contains(keep_alive) {
            return Err(Error::invalid(format!(
                "a keep_alive of {keep_alive:?} is not possible; give {KEEP_ALIVE_MIN:?} to {KEEP_ALIVE_MAX:?}"
            )));
        }
        if timeout.is_zero() {
            return Err(Error::invalid("a timeout of zero lets no call succeed; give some time"));
        }
        if *payload_max == 0 || *payload_max > PAYLOAD_LIMIT {
            return Err(Error::invalid(format!(
                "a payload_max of {payload_max} bytes is not possible; MQTT takes 1 to {PAYLOAD_LIMIT}"
            )));
        }
        if keep_for.as_secs() == 0 {
            return Err(Error::invalid(format!(
                "a keep_for of {keep_for:?} loses what waits whenever a connection breaks; give seconds at least"
            )));
        }
        Ok(())
    }
}

/// Refuses an envelope that needs headers where there are none.
fn check_envelope(envelope: Envelope, version: Version) -> Result<()> {
    if envelope == Envelope::CloudEventsBinary && version == Version::V311 {
        return Err(Error::unsupported(
            "MQTT 3.1.1 has no headers for binary CloudEvents; send structured ones, or use version 5",
        ));
    }
    Ok(())
}

impl fmt::Debug for MqttBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address may hold a password.
        f.debug_struct("MqttBuilder").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_settings_are_refused_by_value() {
        let builder = || MqttBuilder::new("mqtt://h".to_owned());
        builder().check().unwrap();
        for (builder, value) in [
            (builder().prefix("a#"), "\"a#\""),
            (builder().keep_alive(Duration::from_millis(1)), "1ms"),
            (builder().payload_max(PAYLOAD_LIMIT + 1), "134217729"),
            (builder().timeout(Duration::ZERO), "zero"),
            (builder().keep_for(Duration::from_millis(7)), "7ms"),
        ] {
            let error = builder.check().unwrap_err().to_string();
            assert!(error.contains(value), "{error}");
        }
        let shown = format!("{:?}", MqttBuilder::new("mqtt://u:secret@h".to_owned()));
        assert!(!shown.contains("secret"), "{shown}");
    }
}
