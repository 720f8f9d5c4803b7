//! Suite that every transport runs. Cases break connections and restart the broker, so each has a private server
//! where one can be started; an external server is shared, with a prefix per case.

use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::jetstream::{self, stream};
use async_nats::{HeaderMap, HeaderName};
use punctual::backend::wire::Wire;
use punctual::model::Topic;
use punctual::{Error, Result, Transport};
use punctual_conformance::backend_tests::{Proxy, unique_name};
use punctual_conformance::transport::{self, Backend, Environment, Need};
use punctual_nats::NatsTransport;
use xtask::servers::{Durability, Nats, Running, Server as _};

struct Prefix {
    address: String,
    name: String,
    proxy: Proxy,
    server: Option<Mutex<Running>>,
}

impl Prefix {
    async fn new(given: String) -> Result<Self> {
        let name = format!("suite-{}", unique_name());
        let (mut address, mut server) = (given, None);
        if Nats.is_installed() {
            let records = Path::new(env!("CARGO_TARGET_TMPDIR")).join("servers");
            let started = Running::start(&Nats, Durability::Relaxed, &records).map_err(unwell)?;
            address = started.address();
            server = Some(Mutex::new(started));
        }
        let proxy = Proxy::to(&address).await;
        Ok(Self { address, name, proxy, server })
    }

    async fn jetstream(&self) -> Result<jetstream::Context> {
        Ok(jetstream::new(async_nats::connect(&self.address).await.map_err(unwell)?))
    }

    async fn wires(&self, topic: &Topic, ending: &str) -> Result<Vec<Wire>> {
        let name = format!("{}_{topic}=2E{ending}", self.name);
        let stream = match self.jetstream().await?.get_stream(name).await {
            Ok(stream) => stream,
            Err(error) if error.to_string().contains("not found") => return Ok(Vec::new()),
            Err(error) => return Err(unwell(error)),
        };
        let stream::State { first_sequence, last_sequence, .. } = stream.cached_info().state;
        let mut wires = Vec::new();
        for sequence in first_sequence.max(1)..=last_sequence {
            let message = stream.get_raw_message(sequence).await.map_err(unwell)?;
            wires.push(wire(&message.headers, message.payload));
        }
        Ok(wires)
    }
}

/// Converts a message of a stream, without the code under test.
fn wire(headers: &HeaderMap, body: punctual::bytes::Bytes) -> Wire {
    let mut wire = Wire { headers: Vec::new(), body, content_type: "".into() };
    for (name, values) in headers.iter() {
        let value = values.first().map(ToString::to_string).unwrap_or_default();
        match AsRef::<str>::as_ref(name) {
            "Content-Type" => wire.content_type = value.into(),
            name => wire.headers.push((name.to_owned().into(), value)),
        }
    }
    wire
}

#[async_trait::async_trait]
impl Environment for Prefix {
    async fn open(&self) -> Result<Arc<dyn Transport>> {
        // Deliveries on their way when a connection breaks come after this time, and cases wait for 30 seconds.
        let visibility_timeout = Duration::from_secs(10);
        let builder = NatsTransport::builder(self.proxy.address()).prefix(&self.name);
        Ok(Arc::new(builder.visibility_timeout(visibility_timeout).connect().await?))
    }

    async fn publish_foreign(
        &self,
        topic: &Topic,
        body: &[u8],
        headers: &[(&str, &str)],
    ) -> Result<()> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name.parse::<HeaderName>().map_err(unwell)?, *value);
        }
        let (subject, body) = (format!("{}.{topic}", self.name), body.to_vec().into());
        let jetstream = self.jetstream().await?;
        let sent = jetstream.publish_with_headers(subject, map, body).await;
        sent.map_err(unwell)?.await.map(drop).map_err(unwell)
    }

    async fn dead(&self, topic: &Topic, _group: &str) -> Result<Vec<Wire>> {
        self.wires(topic, "dead").await
    }

    async fn invalid(&self, topic: &Topic, _group: &str) -> Result<Vec<Wire>> {
        self.wires(topic, "invalid").await
    }

    async fn restart(&self) -> Result<()> {
        let Some(server) = &self.server else {
            return Err(Error::unsupported("others use the same server"));
        };
        let mut server = server.lock().unwrap_or_else(PoisonError::into_inner);
        tokio::task::block_in_place(|| server.crash().and_then(|()| server.serve())).map_err(unwell)
    }

    fn proxy(&self) -> Option<&Proxy> {
        Some(&self.proxy)
    }

    async fn remove(&self) -> Result<()> {
        use futures_util::StreamExt as _;
        let jetstream = self.jetstream().await?;
        let mut names = jetstream.stream_names();
        while let Some(Ok(name)) = names.next().await {
            if name.starts_with(&format!("{}_", self.name)) {
                jetstream.delete_stream(name).await.map_err(unwell)?;
            }
        }
        Ok(())
    }
}

fn unwell(error: impl std::fmt::Display) -> Error {
    Error::unavailable(format!("{error:#}"))
}

fn main() -> ExitCode {
    let mut backend = Backend::at("PUNCTUAL_NATS_URL", Prefix::new);
    if !Nats.is_installed() {
        backend = backend
            .cannot(Need::Restart, "others use the same server, and none can be started here");
    }
    transport::run("nats", backend)
}
