//! What can be set about the transport, and the first connection: what is wrong with the address or the
//! credentials is said here and not at the first message.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use punctual::clock::{Clock, SystemClock};
use punctual::model::Ids;
use punctual::wire::Wrapping;
use punctual::{Error, Result};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use crate::ServiceBusTransport;
use crate::address::Address;
use crate::entity::Entities;
use crate::hold::Losses;
use crate::line::Settings;
use crate::producer::Producer;

const TIMEOUT: Duration = Duration::from_secs(30);
const TOKEN_LENGTH: Duration = Duration::from_secs(60 * 60);
const TOKEN_LENGTH_MIN: Duration = Duration::from_secs(4);
/// The standard tier takes 256 KiB with headers, of which there may be 64.
const PAYLOAD_MAX: usize = 192 * 1024;
/// The premium tier takes no more.
const PAYLOAD_LIMIT: usize = 100 * 1024 * 1024;
/// What an entity has unless it was created with another.
const DELIVERIES_MAX: u32 = 10;

/// What can be set about the transport.
#[must_use = "a builder does nothing until it connects"]
pub struct ServiceBusBuilder {
    address: String,
    prefix: String,
    entities: Entities,
    clock: Arc<dyn Clock>,
    declares: bool,
    timeout: Duration,
    token_length: Duration,
    payload_max: usize,
    deliveries_max: u32,
    wrapping: Option<Wrapping>,
}

impl ServiceBusBuilder {
    pub(crate) fn new(address: String) -> Self {
        Self {
            address,
            prefix: String::new(),
            entities: Entities::default(),
            clock: Arc::new(SystemClock),
            declares: true,
            timeout: TIMEOUT,
            token_length: TOKEN_LENGTH,
            payload_max: PAYLOAD_MAX,
            deliveries_max: DELIVERIES_MAX,
            wrapping: None,
        }
    }

    /// How the names of all topics or queues begin, followed by a full stop; nothing unless said otherwise.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Whether a topic is a topic with subscriptions or a queue; the former unless said otherwise.
    pub fn entities(mut self, entities: Entities) -> Self {
        self.entities = entities;
        self
    }

    /// Whether what is missing on the broker is made. AMQP cannot make anything, so this changes nothing
    /// and is here because every transport has it: a missing entity is an error that names it.
    pub fn declare(mut self, declares: bool) -> Self {
        self.declares = declares;
        self
    }

    /// How long the broker may take to answer; 30 seconds unless said otherwise.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How long a token is good for; an hour unless said otherwise. It is renewed when three quarters are
    /// over.
    pub fn token_length(mut self, length: Duration) -> Self {
        self.token_length = length;
        self
    }

    /// The largest body in bytes; 192 KiB unless said otherwise, which fits the standard tier with all
    /// headers. The premium tier takes up to 100 MiB.
    pub fn payload_max(mut self, bytes: usize) -> Self {
        self.payload_max = bytes;
        self
    }

    /// The `MaxDeliveryCount` of the entities; 10 unless said otherwise, as theirs. What was put back so
    /// often goes on as a copy, because the broker would bury it.
    pub fn deliveries_max(mut self, count: u32) -> Self {
        self.deliveries_max = count;
        self
    }

    /// What messages are published in; see [`Wrapping`].
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
    pub async fn connect(self) -> Result<ServiceBusTransport> {
        self.check()?;
        let mut address = Address::parse(&self.address)?;
        let wrapping = self.wrapping.or(address.wrapping.take()).unwrap_or_default().checked()?;
        let tls = if address.is_encrypted { Some(tls()?) } else { None };
        let settings = Arc::new(Settings {
            place: address.place(),
            address,
            tls,
            clock: self.clock,
            ids: Ids::random(),
            prefix: self.prefix,
            entities: self.entities,
            timeout: self.timeout,
            token_length: self.token_length,
            payload_max: self.payload_max,
            deliveries_max: self.deliveries_max,
            wrapping,
            losses: Losses::default(),
        });
        let producer = Arc::new(Producer::new(settings.clone()));
        producer.open().await?;
        Ok(ServiceBusTransport { settings, producer })
    }

    fn check(&self) -> Result<()> {
        let Self { timeout, token_length, payload_max, deliveries_max, .. } = self;
        if timeout.is_zero() {
            return Err(Error::invalid("a timeout of zero lets no call succeed; give some time"));
        }
        if *token_length < TOKEN_LENGTH_MIN {
            return Err(Error::invalid(format!(
                "a token_length of {token_length:?} is too short to be renewed in time; give at least {TOKEN_LENGTH_MIN:?}"
            )));
        }
        if *payload_max == 0 || *payload_max > PAYLOAD_LIMIT {
            return Err(Error::invalid(format!(
                "a payload_max of {payload_max} bytes is not possible; Service Bus takes 1 to {PAYLOAD_LIMIT}"
            )));
        }
        if *deliveries_max == 0 {
            return Err(Error::invalid("a deliveries_max of zero lets nothing be delivered"));
        }
        Ok(())
    }
}

impl fmt::Debug for ServiceBusBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address holds a key.
        f.debug_struct("ServiceBusBuilder").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

/// TLS as browsers would have it.
fn tls() -> Result<TlsConnector> {
    let roots: RootCertStore = webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::internal(format!("TLS cannot be used here: {error}")))?;
    let config = config.with_root_certificates(roots).with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_settings_are_refused_by_value() {
        let builder = || ServiceBusBuilder::new(String::new());
        builder().check().unwrap();
        tls().unwrap();
        for (builder, value) in [
            (builder().timeout(Duration::ZERO), "zero"),
            (builder().token_length(Duration::from_secs(1)), "1s"),
            (builder().payload_max(PAYLOAD_LIMIT + 1), "104857601"),
            (builder().deliveries_max(0), "deliveries_max"),
        ] {
            let error = builder.check().unwrap_err().to_string();
            assert!(error.contains(value), "{error}");
        }
        let shown = format!("{:?}", ServiceBusBuilder::new("SharedAccessKey=secret".to_owned()));
        assert!(!shown.contains("secret"), "{shown}");
    }
}
