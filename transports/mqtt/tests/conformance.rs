//! The suite that every transport runs. Cases break connections and restart the broker, so each has a
//! broker of its own where one can be started; a broker elsewhere is shared, each case with a prefix.
//!
//! It runs with MQTT 5; with `PUNCTUAL_MQTT_VERSION=3` with 3.1.1, where strangers have no headers.

// Without the standard harness the lints do not see that this is test code.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "it/proxy.rs"]
mod proxy;
#[path = "it/stranger.rs"]
mod stranger;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use punctual::model::Topic;
use punctual::{Error, Result, Transport};
use punctual_conformance::transport::{self, Backend, Need, Place};
use punctual_mqtt::{MqttTransport, Version};
use xtask::servers::{Durability, Mqtt, Running, Server as _};

use self::proxy::Proxy;

const VARIABLE: &str = "PUNCTUAL_MQTT_URL";
static NEXT: AtomicU64 = AtomicU64::new(0);

struct Prefix {
    address: String,
    name: String,
    proxy: Proxy,
    server: Option<Mutex<Running>>,
    records: PathBuf,
}

impl Prefix {
    async fn new(address: String) -> Result<Self> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("conformance-{}-{number}", std::process::id());
        let records = std::env::temp_dir().join(format!("punctual-{name}"));
        if !is_private() {
            let proxy = Proxy::to(&address).await;
            return Ok(Self { address, name, proxy, server: None, records });
        }
        let server = Running::start(&Mqtt, Durability::Relaxed, &records).map_err(unwell)?;
        let address = server.address();
        let proxy = Proxy::to(&address).await;
        Ok(Self { address, name, proxy, server: Some(Mutex::new(server)), records })
    }
}

impl Drop for Prefix {
    fn drop(&mut self) {
        if self.server.take().is_some() {
            let _ = std::fs::remove_dir_all(&self.records);
        }
    }
}

#[async_trait::async_trait]
impl Place for Prefix {
    async fn open(&self) -> Result<Arc<dyn Transport>> {
        let builder = MqttTransport::builder(self.proxy.url()).prefix(&self.name);
        // A broker of our own keeps what it has when it ends in order; of another one we know nothing.
        let builder = builder.version(version()).durable(self.server.is_some());
        Ok(Arc::new(builder.connect().await?))
    }

    async fn put(&self, topic: &Topic, body: &[u8], headers: &[(&str, &str)]) -> Result<()> {
        let name = format!("{}/topic/{topic}", self.name);
        stranger::publish(&self.address, &name, body, headers).await.map_err(unwell)
    }

    async fn restart(&self) -> Result<()> {
        let Some(server) = &self.server else {
            return Err(Error::unsupported("others use the same broker"));
        };
        let mut server = server.lock().unwrap_or_else(PoisonError::into_inner);
        tokio::task::block_in_place(|| server.halt().and_then(|()| server.serve())).map_err(unwell)
    }

    async fn cut(&self) -> Result<()> {
        self.proxy.cut();
        self.proxy.mend();
        Ok(())
    }
}

fn version() -> Version {
    match std::env::var("PUNCTUAL_MQTT_VERSION").as_deref() {
        Ok("3") => Version::V311,
        _ => Version::V5,
    }
}

/// Whether a broker can be started for each case.
fn is_private() -> bool {
    Mqtt.is_installed()
}

fn unwell(error: impl std::fmt::Display) -> Error {
    Error::unavailable(format!("{error:#}"))
}

fn main() -> ExitCode {
    let backend = Backend::at(VARIABLE, Prefix::new);
    let mut backend = backend.cannot(
        Need::Letters,
        "nobody keeps dead letters on the broker unless somebody has subscribed to them",
    );
    if !is_private() {
        let why = "others use the same broker, and none can be started here";
        backend = backend.cannot(Need::Restart, why);
    }
    if version() == Version::V311 {
        backend = backend.cannot(Need::Put, "strangers have no headers in MQTT 3.1.1");
    }
    transport::run("mqtt", backend)
}
