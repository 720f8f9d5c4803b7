//! How a transport is made: where the broker is, and the few things that can be set.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::context::ContextBuilder;
use async_nats::{Client, ConnectOptions, Event};
use punctual::clock::{add, within};
use punctual::wire::Wrapping;
use punctual::{Clock, Error, Result, SystemClock};
use serde_json::json;
use tokio::sync::watch;

use crate::NatsTransport;
use crate::address::Address;
use crate::fault;
use crate::link::{Answer, Link};
use crate::names::Names;
use crate::producer::Producer;
use crate::topology::{Topology, Wanted};
use crate::version;

const PREFIX: &str = "punctual";
const ACK_WAIT: Duration = Duration::from_secs(30);
/// Shorter, and the extensions of a slow process come too late.
const ACK_WAIT_MIN: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(5);

/// Unconfirmed messages of all callers together. A caller that waited here would hold back what it sent
/// itself, so it is far above what any number of batches needs.
const IN_FLIGHT_MAX: usize = 1 << 20;

/// What can be set about a [`NatsTransport`]; made by [`NatsTransport::builder`].
#[must_use]
pub struct NatsBuilder {
    address: String,
    prefix: String,
    domain: Option<String>,
    wanted: Wanted,
    patience: Duration,
    options: ConnectOptions,
    wrapping: Option<Wrapping>,
    clock: Arc<dyn Clock>,
}

impl NatsBuilder {
    pub(crate) fn new(address: String) -> Self {
        let wanted = Wanted {
            declare: true,
            in_memory: false,
            replicas: 1,
            ack_wait: ACK_WAIT,
            dead_kept_for: None,
            deduplicated_for: None,
            drop_unheard: false,
        };
        Self {
            address,
            prefix: PREFIX.to_owned(),
            domain: None,
            wanted,
            patience: PATIENCE,
            options: ConnectOptions::new().name("punctual"),
            wrapping: None,
            clock: Arc::new(SystemClock),
        }
    }

    /// How every name on the broker begins; `punctual` unless said otherwise.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Whether streams and consumers are created when they are not there; they are unless said otherwise.
    pub fn declare(mut self, declare: bool) -> Self {
        self.wanted.declare = declare;
        self
    }

    /// Keeps streams in the broker's memory: faster, and gone with the broker.
    pub fn in_memory(mut self) -> Self {
        self.wanted.in_memory = true;
        self
    }

    /// On how many servers of a cluster each stream is kept; 1 unless said otherwise.
    pub fn replicas(mut self, count: usize) -> Self {
        self.wanted.replicas = count;
        self
    }

    /// After how long without a sign of life the broker gives a delivery to somebody else; 30 seconds
    /// unless said otherwise, one at least. Signs are given three times as often by themselves, so this is
    /// about processes that died.
    pub fn ack_wait(mut self, length: Duration) -> Self {
        self.wanted.ack_wait = length;
        self
    }

    /// How long dead letters are kept; for ever unless said otherwise.
    pub fn dead_letters_kept_for(mut self, length: Duration) -> Self {
        self.wanted.dead_kept_for = Some(length);
        self
    }

    /// Lets the broker drop a message whose id and due time it has seen within this long, so that
    /// repeating a publish whose answer was lost does not send it twice. Off unless said otherwise: whoever
    /// sends a dead letter again within this time, unchanged, would wait for it in vain.
    pub fn deduplicate(mut self, window: Duration) -> Self {
        self.wanted.deduplicated_for = Some(window);
        self
    }

    /// Allows publishing to topics that no group has subscribed to; the broker drops such messages.
    pub fn drop_unheard(mut self, allowed: bool) -> Self {
        self.wanted.drop_unheard = allowed;
        self
    }

    /// How long the broker may take to answer; 5 seconds unless said otherwise.
    pub fn patience(mut self, length: Duration) -> Self {
        self.patience = length;
        self
    }

    /// The domain of JetStream, where a broker has several.
    pub fn domain(mut self, domain: impl Into<String>) -> Self {
        self.domain = Some(domain.into());
        self
    }

    /// Options of the client, for certificates, keys and credentials. How it reconnects, how long it waits
    /// and its event callback are set here over what they say.
    pub fn options(mut self, options: ConnectOptions) -> Self {
        self.options = options;
        self
    }

    /// What messages are published in; see [`Wrapping`].
    pub fn envelope(mut self, envelope: impl Into<Wrapping>) -> Self {
        self.wrapping = Some(envelope.into());
        self
    }

    /// The clock; the system's unless said otherwise.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Connects, and makes sure that the broker is new enough and that JetStream is there.
    pub async fn connect(self) -> Result<NatsTransport> {
        self.check()?;
        let (address, wrapping) = Wrapping::at(&self.address, self.wrapping.clone())?;
        let address = Address::parse(&address)?;
        let names = Names::new(&self.prefix)?;
        let place = address.place();
        // With several kinds of cryptography in one program the client could not choose by itself; whoever
        // has chosen already is left alone.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (told, connected) = watch::channel(true);
        let options = self
            .options
            .event_callback(move |event| {
                let connected = match event {
                    Event::Connected => Some(true),
                    Event::Disconnected | Event::Closed => Some(false),
                    _ => None,
                };
                told.send_if_modified(|state| {
                    let is_news = connected.is_some_and(|connected| connected != *state);
                    *state = connected.unwrap_or(*state);
                    is_news
                });
                std::future::ready(())
            })
            .connection_timeout(self.patience)
            .request_timeout(Some(self.patience))
            .max_reconnects(None);
        let until = add(self.clock.now(), self.patience * 2);
        let client = within(&*self.clock, until, options.connect(address.servers))
            .await
            .ok_or_else(|| fault::silent(&place))?
            .map_err(|error| fault::from_connect(error, &place))?;
        version::check(&client.server_info().version, &place)?;
        let api =
            self.domain.as_ref().map_or("$JS.API".to_owned(), |name| format!("$JS.{name}.API"));
        let link = Arc::new(Link {
            jetstream: ContextBuilder::new()
                .api_prefix(api.clone())
                .timeout(self.patience)
                .max_ack_inflight(IN_FLIGHT_MAX)
                .build(client.clone()),
            client,
            clock: self.clock,
            place,
            api,
            patience: self.patience,
            connected,
        });
        find_jetstream(&link).await?;
        let topology = Arc::new(Topology::new(Arc::clone(&link), names, self.wanted));
        let producer = Arc::new(Producer::new(Arc::clone(&topology), wrapping));
        Ok(NatsTransport::new(link, topology, producer))
    }

    fn check(&self) -> Result<()> {
        let Wanted { ack_wait, replicas, deduplicated_for, .. } = &self.wanted;
        if *ack_wait < ACK_WAIT_MIN {
            return Err(Error::invalid(format!(
                "ack_wait of {ack_wait:?} is too short; it must be {ACK_WAIT_MIN:?} at least"
            )));
        }
        if !(1..=5).contains(replicas) {
            return Err(Error::invalid(format!(
                "{replicas} replicas are not possible; choose 1 to 5"
            )));
        }
        if deduplicated_for.is_some_and(|window| window < Duration::from_millis(100)) {
            return Err(Error::invalid(
                "the window for deduplication is too short; it must be 100 ms at least",
            ));
        }
        if self.patience.is_zero() {
            return Err(Error::invalid(
                "a patience of zero never waits for an answer; give it more",
            ));
        }
        Ok(())
    }
}

impl fmt::Debug for NatsBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsBuilder")
            .field("prefix", &self.prefix)
            .field("wanted", &self.wanted)
            .finish_non_exhaustive()
    }
}

/// Asks for JetStream.
async fn find_jetstream(link: &Link) -> Result<()> {
    let what = "to say what it has";
    match link.call::<serde_json::Value>("INFO".to_owned(), &json!({}), what).await? {
        Answer::Here(_) | Answer::Absent => Ok(()),
    }
}

/// What a body may have, so that the headers fit beside it.
pub(crate) fn body_max(client: &Client) -> usize {
    const HEADERS: usize = 16 * 1024;
    let whole = client.max_payload();
    whole.saturating_sub(HEADERS).max(whole / 2)
}
