//! Builder of the Service Bus transport: options, their checks and the first connection, so that a wrong address
//! or credential fails here and not at the first message.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use punctual::backend::transport::settings::CommonSettings;
use punctual::model::Ids;
use punctual::{Error, Result, common_transport_options};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use crate::ServiceBusTransport;
use crate::address::Address;
use crate::connection_loss::ConnectionLosses;
use crate::names::Entities;
use crate::producer::Producer;
use crate::settings::Settings;

const TIMEOUT: Duration = Duration::from_secs(30);
const TOKEN_TTL: Duration = Duration::from_secs(60 * 60);
const TOKEN_TTL_MIN: Duration = Duration::from_secs(4);
/// The standard tier accepts 256 KiB including headers, which may take 64 KiB.
const PAYLOAD_MAX: usize = 192 * 1024;
/// Limit of the premium tier.
const PAYLOAD_LIMIT: usize = 100 * 1024 * 1024;
/// `MaxDeliveryCount` of an entity unless it was created with another.
const DELIVERIES_MAX: u32 = 10;

/// Builder of a [`ServiceBusTransport`].
#[must_use = "a builder does nothing until it connects"]
pub struct ServiceBusBuilder {
    common: CommonSettings,
    entities: Entities,
    token_ttl: Duration,
    deliveries_max: u32,
}

impl ServiceBusBuilder {
    pub(crate) fn new(address: String) -> Self {
        Self {
            common: CommonSettings {
                prefix: String::new(),
                timeout: TIMEOUT,
                payload_max: PAYLOAD_MAX,
                ..CommonSettings::new(address)
            },
            entities: Entities::default(),
            token_ttl: TOKEN_TTL,
            deliveries_max: DELIVERIES_MAX,
        }
    }

    /// Sets whether a topic is a topic with subscriptions or a queue; default [`Entities::Topics`].
    pub fn entities(mut self, entities: Entities) -> Self {
        self.entities = entities;
        self
    }

    /// Sets how long a token is valid; default one hour. It is renewed when three quarters have passed.
    pub fn token_ttl(mut self, ttl: Duration) -> Self {
        self.token_ttl = ttl;
        self
    }

    /// Sets the `MaxDeliveryCount` of the entities; default 10, as theirs. A message that was requeued this
    /// often continues as a copy, because the broker would dead-letter it.
    pub fn deliveries_max(mut self, count: u32) -> Self {
        self.deliveries_max = count;
        self
    }

    /// Connects. Fails when an option is invalid, or the broker cannot be reached or refuses the credentials.
    pub async fn connect(self) -> Result<ServiceBusTransport> {
        self.check()?;
        let CommonSettings { address, prefix, timeout, payload_max, envelope, clock, .. } =
            self.common;
        let mut address = Address::parse(&address)?;
        let wrapping = envelope.or(address.wrapping.take()).unwrap_or_default().checked()?;
        let tls = if address.is_encrypted { Some(tls()?) } else { None };
        let settings = Arc::new(Settings {
            endpoint: address.endpoint(),
            address,
            tls,
            clock,
            ids: Ids::random(),
            prefix,
            entities: self.entities,
            timeout,
            token_ttl: self.token_ttl,
            payload_max,
            deliveries_max: self.deliveries_max,
            wrapping,
            losses: ConnectionLosses::default(),
        });
        let producer = Arc::new(Producer::new(settings.clone()));
        producer.open().await?;
        Ok(ServiceBusTransport { settings, producer })
    }

    fn check(&self) -> Result<()> {
        self.common.check(PAYLOAD_LIMIT)?;
        let Self { token_ttl, deliveries_max, .. } = self;
        if *token_ttl < TOKEN_TTL_MIN {
            return Err(Error::invalid(format!(
                "a token_ttl of {token_ttl:?} is too short to be renewed in time; set at least {TOKEN_TTL_MIN:?}"
            )));
        }
        if *deliveries_max == 0 {
            return Err(Error::invalid(
                "a deliveries_max of zero allows no delivery; use at least 1",
            ));
        }
        Ok(())
    }
}

common_transport_options! {
    ServiceBusBuilder {
        prefix: "Sets the prefix of all topics or queues, which a full stop follows; default: none.",
        declare: "Sets whether missing entities are created. AMQP cannot create any, so this has no effect and exists because every transport has it: a missing entity is an error that names it.",
        timeout: "Sets the timeout of one call to the broker; default 30 seconds.",
        payload_max: "Sets the size limit of a body in bytes; default 192 KiB, which fits the standard tier with all headers. The premium tier accepts up to 100 MiB.",
    }
}

impl fmt::Debug for ServiceBusBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceBusBuilder").field("common", &self.common).finish_non_exhaustive()
    }
}

/// Returns TLS that trusts the roots of browsers.
fn tls() -> Result<TlsConnector> {
    let roots: RootCertStore = webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::internal(format!("TLS is not available: {error}")))?;
    let config = config.with_root_certificates(roots).with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_options_are_refused_by_value() {
        let builder = || ServiceBusBuilder::new(String::new());
        builder().check().unwrap();
        tls().unwrap();
        for (builder, value) in [
            (builder().timeout(Duration::ZERO), "zero"),
            (builder().token_ttl(Duration::from_secs(1)), "1s"),
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
