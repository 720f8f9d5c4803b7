//! Builder of the transport, and the first connection: a wrong address, wrong credentials or an unsuitable broker
//! fail here and not at the first message.

use std::fmt;
use std::time::Duration;

use punctual::backend::transport::settings::CommonSettings;
use punctual::backend::wire::Envelope;
use punctual::model::{IdSource as _, Ids};
use punctual::{Error, Result, common_transport_options};
use tokio::sync::Mutex;

use crate::MqttTransport;
use crate::adoption::client;
use crate::codec::Version;
use crate::connector::{self, Connector};
use crate::names::check_prefix;
use crate::producer::Producer;
use crate::{address, error};

const SESSION_RETENTION: Duration = Duration::from_hours(7 * 24);
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const KEEP_ALIVE_MIN: Duration = Duration::from_secs(1);
const KEEP_ALIVE_MAX: Duration = Duration::from_hours(1);
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const PAYLOAD_MAX: usize = 8 * 1024 * 1024;
/// An envelope of MQTT 3.1.1 is larger than its body; this size always fits into a packet.
const PAYLOAD_LIMIT: usize = 128 * 1024 * 1024;
/// Room for headers in addition to a body, within the broker's packet limit.
const HEADERS_ROOM: usize = 64 * 1024;

/// Configures the transport.
#[must_use = "a builder does nothing until it connects"]
pub struct MqttBuilder {
    common: CommonSettings,
    version: Version,
    root_certificate: Option<Vec<u8>>,
    session_retention: Duration,
    keep_alive: Duration,
    reconnect_timeout: Duration,
    allows_no_subscribers: bool,
    durable: bool,
}

impl MqttBuilder {
    pub(crate) fn new(address: String) -> Self {
        Self {
            common: CommonSettings { payload_max: PAYLOAD_MAX, ..CommonSettings::new(address) },
            version: Version::default(),
            root_certificate: None,
            session_retention: SESSION_RETENTION,
            keep_alive: KEEP_ALIVE,
            reconnect_timeout: RECONNECT_TIMEOUT,
            allows_no_subscribers: false,
            durable: false,
        }
    }

    /// Sets the MQTT version; 5 by default. Version 3.1.1 has no headers, so CloudEvents are structured there.
    pub fn version(mut self, version: Version) -> Self {
        self.version = version;
        self
    }

    /// Sets how long the broker keeps the session of a consumer that is gone, and with it the messages of its group;
    /// 7 days by default. In version 3.1.1 the broker alone decides.
    pub fn session_retention(mut self, retention: Duration) -> Self {
        self.session_retention = retention;
        self
    }

    /// Sets the keep-alive interval; a dead connection is detected after about twice this. 15 seconds by default.
    pub fn keep_alive(mut self, interval: Duration) -> Self {
        self.keep_alive = interval;
        self
    }

    /// Sets how long a consumer whose connection broke may take to reconnect before another one adopts its session;
    /// 10 seconds by default.
    pub fn reconnect_timeout(mut self, timeout: Duration) -> Self {
        self.reconnect_timeout = timeout;
        self
    }

    /// Sets whether publishing succeeds when there is no subscription and the broker discards the message; it fails
    /// by default. In version 3.1.1 the broker does not report it, and publishing always succeeds.
    pub fn allow_no_subscribers(mut self, allows: bool) -> Self {
        self.allows_no_subscribers = allows;
        self
    }

    /// Declares whether accepted messages survive a restart of the broker, which MQTT cannot query; `false` by
    /// default. Mosquitto needs `persistence true`, and then keeps them after a clean shutdown. With version 3.1.1
    /// Mosquitto is not durable: what is published before the consumers are back is confirmed and lost.
    pub fn durable(mut self, durable: bool) -> Self {
        self.durable = durable;
        self
    }

    /// Sets the certificate authority, as PEM, that the broker's certificate is verified against; by default the
    /// authorities that browsers trust.
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.root_certificate = Some(pem.into());
        self
    }

    /// Connects, and refuses invalid settings.
    pub async fn connect(self) -> Result<MqttTransport> {
        self.check()?;
        let (address, wrapping) = self.common.address_and_envelope()?;
        check_envelope(wrapping.envelope(), self.version)?;
        let address = address::parse(&address)?;
        let tls = connector::encryption(&address, self.root_certificate.as_deref())?;
        let Self { version, keep_alive, .. } = self;
        let CommonSettings { prefix, timeout, payload_max, clock, .. } = self.common;
        let connector = Connector { address, version, keep_alive, timeout, clock, tls };
        let ids = Ids::random();
        let client = client(&prefix, &ids.next(connector.clock.now()).to_string());
        let connection = Mutex::new(None);
        let allows_no_subscribers = self.allows_no_subscribers;
        let mut producer = Producer {
            connector,
            client,
            prefix,
            payload_max,
            allows_no_subscribers,
            wrapping,
            connection,
        };
        let opened = producer.open().await;
        let opened = opened.map_err(|error| {
            error::map_error(&error, &producer.connector.server()).during("connect")
        })?;
        let limit = opened.connack.packet_max.saturating_sub(HEADERS_ROOM);
        producer.payload_max = producer.payload_max.min(limit);
        let (session_retention, reconnect_timeout, durable) =
            (self.session_retention, self.reconnect_timeout, self.durable);
        Ok(MqttTransport { producer, ids, session_retention, reconnect_timeout, durable })
    }

    fn check(&self) -> Result<()> {
        check_prefix(&self.common.prefix)?;
        self.common.check(PAYLOAD_LIMIT)?;
        let Self { keep_alive, session_retention, .. } = self;
        if !(KEEP_ALIVE_MIN..=KEEP_ALIVE_MAX).contains(keep_alive) {
            return Err(Error::invalid(format!(
                "a keep_alive of {keep_alive:?} is out of range; use {KEEP_ALIVE_MIN:?} to {KEEP_ALIVE_MAX:?}"
            )));
        }
        if session_retention.as_secs() == 0 {
            return Err(Error::invalid(format!(
                "a session_retention of {session_retention:?} loses messages whenever a connection \
                 breaks; use at least 1s"
            )));
        }
        Ok(())
    }
}

/// Refuses an envelope that needs headers in a version without headers.
fn check_envelope(envelope: Envelope, version: Version) -> Result<()> {
    if envelope == Envelope::CloudEventsBinary && version == Version::V311 {
        return Err(Error::unsupported(
            "MQTT 3.1.1 has no headers for binary CloudEvents; use structured ones, or version 5",
        ));
    }
    Ok(())
}

common_transport_options! {
    MqttBuilder {
        prefix: "Sets the prefix of all topics and client identifiers; `punctual` by default.",
        timeout: "Limits one call to the broker, including connecting; 10 seconds by default.",
        payload_max: "Limits the body of a message, in bytes; 8 MiB by default, at most 128 MiB, and less if the broker's packet limit is lower.",
    }
}

impl fmt::Debug for MqttBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MqttBuilder").field("common", &self.common).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_settings_are_refused_by_value() {
        let builder = || MqttBuilder::new("mqtt://h".to_owned());
        builder().check().unwrap();
        for (builder, value) in [
            (builder().prefix("a#"), "\"a#\""),
            (builder().keep_alive(Duration::from_millis(1)), "1ms"),
            (builder().payload_max(PAYLOAD_LIMIT + 1), "134217729"),
            (builder().timeout(Duration::ZERO), "zero"),
            (builder().session_retention(Duration::from_millis(7)), "7ms"),
        ] {
            let error = builder.check().unwrap_err().to_string();
            assert!(error.contains(value), "{error}");
        }
        let shown = format!("{:?}", MqttBuilder::new("mqtt://u:secret@h".to_owned()));
        assert!(!shown.contains("secret"), "{shown}");
    }
}
