//! Test fixture: a prefix of its own, whose streams are removed at the end.

use std::time::Duration;

use async_nats::jetstream;
use async_nats::jetstream::message::StreamMessage;
use futures_util::StreamExt as _;
use punctual::jiff::Timestamp;
use punctual::{Clock as _, SystemClock};
use punctual_conformance::backend_tests;
use punctual_nats::{NatsBuilder, NatsTransport};

/// Environment variable with the broker's address.
pub(crate) const VARIABLE: &str = "PUNCTUAL_NATS_URL";
/// How long to wait before concluding that something does not happen.
pub(crate) const A_WHILE: Duration = Duration::from_millis(400);

/// The streams under one prefix.
pub(crate) struct Fixture {
    pub(crate) address: String,
    pub(crate) prefix: String,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let prefix = format!("it-{}", backend_tests::unique_name());
        Self { address: backend_tests::address(VARIABLE), prefix }
    }

    pub(crate) fn builder(&self) -> NatsBuilder {
        self.builder_at(&self.address)
    }

    pub(crate) fn builder_at(&self, address: &str) -> NatsBuilder {
        NatsTransport::builder(address).prefix(&self.prefix)
    }

    pub(crate) async fn open(&self) -> NatsTransport {
        self.builder().connect().await.unwrap()
    }

    /// Returns a JetStream context of a client other than the transport's.
    pub(crate) async fn jetstream(&self) -> jetstream::Context {
        jetstream::new(async_nats::connect(&self.address).await.unwrap())
    }

    /// Returns every message of a stream, as stored.
    pub(crate) async fn stored(&self, stream: &str) -> Vec<StreamMessage> {
        let name = format!("{}_{stream}", self.prefix);
        let Ok(stream) = self.jetstream().await.get_stream(name).await else { return Vec::new() };
        let state = &stream.cached_info().state;
        let mut stored = Vec::new();
        for sequence in state.first_sequence.max(1)..=state.last_sequence {
            stored.extend(stream.get_raw_message(sequence).await);
        }
        stored
    }

    pub(crate) async fn remove(&self) {
        let jetstream = self.jetstream().await;
        let names: Vec<String> =
            jetstream.stream_names().filter_map(|name| async { name.ok() }).collect().await;
        for name in names.iter().filter(|name| name.starts_with(&format!("{}_", self.prefix))) {
            jetstream.delete_stream(name).await.unwrap();
        }
    }
}

pub(crate) fn now() -> Timestamp {
    SystemClock.now()
}
