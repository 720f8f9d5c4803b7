//! Builder of the transport: options, checks, and the first connection.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::context::ContextBuilder;
use async_nats::{Client, ConnectOptions, Event};
use punctual::backend::transport::settings::CommonSettings;
use punctual::clock::{add, within};
use punctual::{Error, Result, common_transport_options};
use serde_json::json;
use tokio::sync::watch;

use crate::NatsTransport;
use crate::address::Address;
use crate::connection::{ApiResponse, Connection};
use crate::error;
use crate::names::Names;
use crate::producer::Producer;
use crate::server;
use crate::settings::Settings;
use crate::topology::Topology;

const VISIBILITY_TIMEOUT: Duration = Duration::from_secs(30);
/// With a shorter one the extensions of a slow process come too late.
const VISIBILITY_TIMEOUT_MIN: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_secs(5);

/// Limit of unconfirmed messages of all callers together. A caller that waited for it would delay its own
/// confirmations, so it is far above what any number of batches needs.
const IN_FLIGHT_MAX: usize = 1 << 20;

/// Configures a [`NatsTransport`]; created by [`NatsTransport::builder`].
#[must_use]
pub struct NatsBuilder {
    common: CommonSettings,
    domain: Option<String>,
    settings: Settings,
    options: ConnectOptions,
}

impl NatsBuilder {
    pub(crate) fn new(address: String) -> Self {
        let settings = Settings {
            declare: true,
            in_memory: false,
            replicas: 1,
            visibility_timeout: VISIBILITY_TIMEOUT,
            dead_letter_retention: None,
            deduplication_window: None,
            allow_no_subscribers: false,
        };
        Self {
            common: CommonSettings { timeout: TIMEOUT, ..CommonSettings::new(address) },
            domain: None,
            settings,
            options: ConnectOptions::new().name("punctual"),
        }
    }

    /// Keeps streams in the broker's memory: faster, and lost when the broker stops.
    pub fn in_memory(mut self) -> Self {
        self.settings.in_memory = true;
        self
    }

    /// Sets the number of replicas of each stream in a cluster; 1 by default.
    pub fn replicas(mut self, count: usize) -> Self {
        self.settings.replicas = count;
        self
    }

    /// Sets how long a delivery stays invisible to other consumers after its process is gone, JetStream's `ack_wait`; 30
    /// seconds by default, at least one. A live process renews it three times per timeout.
    pub fn visibility_timeout(mut self, timeout: Duration) -> Self {
        self.settings.visibility_timeout = timeout;
        self
    }

    /// Sets how long dead letters are kept; forever by default.
    pub fn dead_letter_retention(mut self, retention: Duration) -> Self {
        self.settings.dead_letter_retention = Some(retention);
        self
    }

    /// Lets the broker drop a message whose id and due time it has received within this window, so that repeating a
    /// publish whose confirmation was lost does not send it twice. Off by default: a dead letter that is redriven
    /// unchanged within this window would be dropped.
    pub fn deduplicate(mut self, window: Duration) -> Self {
        self.settings.deduplication_window = Some(window);
        self
    }

    /// Sets whether publishing to topics without a group succeeds; the broker discards such messages. `false` by
    /// default.
    pub fn allow_no_subscribers(mut self, allows: bool) -> Self {
        self.settings.allow_no_subscribers = allows;
        self
    }

    /// Sets the JetStream domain, for brokers with several.
    pub fn domain(mut self, domain: impl Into<String>) -> Self {
        self.domain = Some(domain.into());
        self
    }

    /// Sets options of the client, for certificates, keys and credentials. Reconnection, timeouts and the event
    /// callback are overridden here.
    pub fn options(mut self, options: ConnectOptions) -> Self {
        self.options = options;
        self
    }

    /// Connects, and checks that the broker is new enough and has JetStream.
    pub async fn connect(self) -> Result<NatsTransport> {
        self.check()?;
        let (address, wrapping) = self.common.address_and_envelope()?;
        let address = Address::parse(&address)?;
        let CommonSettings { prefix, declare, timeout, payload_max, clock, .. } = self.common;
        let names = Names::new(&prefix)?;
        let servers = address.server_names();
        // With several cryptography providers in one program the client could not choose one; a provider that the
        // application has installed is kept.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (connection_state, connected) = watch::channel(true);
        let options = self
            .options
            .event_callback(move |event| {
                let connected = match event {
                    Event::Connected => Some(true),
                    Event::Disconnected | Event::Closed => Some(false),
                    _ => None,
                };
                connection_state.send_if_modified(|state| {
                    let has_changed = connected.is_some_and(|connected| connected != *state);
                    *state = connected.unwrap_or(*state);
                    has_changed
                });
                std::future::ready(())
            })
            .connection_timeout(timeout)
            .request_timeout(Some(timeout))
            .max_reconnects(None);
        let until = add(clock.now(), timeout * 2);
        let client = within(&*clock, until, options.connect(address.servers))
            .await
            .ok_or_else(|| error::timed_out(&servers))?
            .map_err(|error| error::map_connect_error(error, &servers))?;
        server::check(&client.server_info().version, &servers)?;
        let api =
            self.domain.as_ref().map_or("$JS.API".to_owned(), |name| format!("$JS.{name}.API"));
        let connection = Arc::new(Connection {
            jetstream: ContextBuilder::new()
                .api_prefix(api.clone())
                .timeout(timeout)
                .max_ack_inflight(IN_FLIGHT_MAX)
                .build(client.clone()),
            client,
            clock,
            servers,
            api,
            timeout,
            connected,
        });
        check_jetstream(&connection).await?;
        let settings = Settings { declare, ..self.settings };
        let topology = Arc::new(Topology::new(Arc::clone(&connection), names, settings));
        let body_max = payload_max.min(body_max(&connection.client));
        let producer = Arc::new(Producer::new(Arc::clone(&topology), wrapping, body_max));
        Ok(NatsTransport::new(connection, topology, producer))
    }

    fn check(&self) -> Result<()> {
        self.common.check(usize::MAX)?;
        let Settings { visibility_timeout, replicas, deduplication_window, .. } = &self.settings;
        if *visibility_timeout < VISIBILITY_TIMEOUT_MIN {
            return Err(Error::invalid(format!(
                "a visibility_timeout of {visibility_timeout:?} is too short; use at least {VISIBILITY_TIMEOUT_MIN:?}"
            )));
        }
        if !(1..=5).contains(replicas) {
            return Err(Error::invalid(format!(
                "{replicas} replicas are out of range; use 1 to 5"
            )));
        }
        if deduplication_window.is_some_and(|window| window < Duration::from_millis(100)) {
            return Err(Error::invalid(
                "the deduplication window is too short; use at least 100 ms",
            ));
        }
        Ok(())
    }
}

common_transport_options! {
    NatsBuilder {
        prefix: "Sets the prefix of every name on the broker; `punctual` by default.",
        declare: "Sets whether missing streams and consumers are created; `true` by default.",
        timeout: "Limits one call to the broker, including connecting; 5 seconds by default.",
        payload_max: "Limits the body of a message, in bytes; by default, and at most, what the broker accepts less the headers.",
    }
}

impl fmt::Debug for NatsBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsBuilder")
            .field("common", &self.common)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// Checks that JetStream is enabled.
async fn check_jetstream(connection: &Connection) -> Result<()> {
    let what = "the account information";
    match connection.call::<serde_json::Value>("INFO".to_owned(), &json!({}), what).await? {
        ApiResponse::Found(_) | ApiResponse::NotFound => Ok(()),
    }
}

/// Returns the largest body that leaves room for the headers.
fn body_max(client: &Client) -> usize {
    const HEADERS_ROOM: usize = 16 * 1024;
    let limit = client.max_payload();
    limit.saturating_sub(HEADERS_ROOM).max(limit / 2)
}
