//! Suite that every transport runs, with either version of MQTT. Cases break connections and restart the broker, so
//! each has a private broker where one can be started; an external broker is shared, with a prefix per case.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use punctual::model::Topic;
use punctual::{Error, Result, Transport};
use punctual_conformance::backend_tests::{Proxy, unique_name};
use punctual_conformance::transport::{self, Backend, Environment, Need};
use punctual_mqtt::{MqttTransport, Version};
use xtask::servers::{Durability, Mqtt, Running, Server as _};

use crate::foreign_client;

const VARIABLE: &str = "PUNCTUAL_MQTT_URL";

struct Prefix {
    version: Version,
    address: String,
    name: String,
    proxy: Proxy,
    server: Option<Mutex<Running>>,
    records: PathBuf,
}

impl Prefix {
    async fn new(address: String, version: Version) -> Result<Self> {
        let name = format!("conformance-{}", unique_name());
        let records = std::env::temp_dir().join(format!("punctual-{name}"));
        if !is_private() {
            let proxy = Proxy::to(&address).await;
            return Ok(Self { version, address, name, proxy, server: None, records });
        }
        let server = Running::start(&Mqtt, Durability::Relaxed, &records).map_err(unwell)?;
        let address = server.address();
        let proxy = Proxy::to(&address).await;
        Ok(Self { version, address, name, proxy, server: Some(Mutex::new(server)), records })
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
impl Environment for Prefix {
    async fn open(&self) -> Result<Arc<dyn Transport>> {
        let builder = MqttTransport::builder(self.proxy.address()).prefix(&self.name);
        // A private broker keeps its messages after a clean shutdown; of another one this is unknown. With 3.1.1 it
        // also confirms, and loses, what is published before the consumers are back.
        let durable = self.server.is_some() && self.version == Version::V5;
        let builder = builder.version(self.version).durable(durable);
        Ok(Arc::new(builder.connect().await?))
    }

    async fn publish_foreign(
        &self,
        topic: &Topic,
        body: &[u8],
        headers: &[(&str, &str)],
    ) -> Result<()> {
        let name = format!("{}/topic/{topic}", self.name);
        foreign_client::publish(&self.address, &name, body, headers).await.map_err(unwell)
    }

    async fn restart(&self) -> Result<()> {
        let Some(server) = &self.server else {
            return Err(Error::unsupported("others use the same broker"));
        };
        let mut server = server.lock().unwrap_or_else(PoisonError::into_inner);
        tokio::task::block_in_place(|| server.halt().and_then(|()| server.serve())).map_err(unwell)
    }

    fn proxy(&self) -> Option<&Proxy> {
        Some(&self.proxy)
    }
}

/// Whether a broker can be started for each case.
fn is_private() -> bool {
    Mqtt.is_installed()
}

fn unwell(error: impl std::fmt::Display) -> Error {
    Error::unavailable(format!("{error:#}"))
}

pub(crate) fn run(name: &str, version: Version) -> ExitCode {
    let mut backend = Backend::at(VARIABLE, move |address| Prefix::new(address, version));
    if !is_private() {
        let why = "others use the same broker, and none can be started here";
        backend = backend.cannot(Need::Restart, why);
    }
    if version == Version::V311 {
        backend = backend.cannot(Need::ForeignHeaders, "MQTT 3.1.1 has no headers");
    }
    transport::run(name, backend)
}
