//! Conformance suite of all transports. Cases break connections and restart the server, so each has a server of
//! its own where one can be started; an external server is shared, each case with its own prefix.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use punctual::backend::wire::Wire;
use punctual::bytes::Bytes;
use punctual::model::Topic;
use punctual::{Error, Result, Transport};
use punctual_conformance::backend_tests::{Proxy, unique_name};
use punctual_conformance::transport::{self, Backend, Environment, Need};
use punctual_redis::RedisTransport;
use redis::{Cmd, FromRedisValue, cmd};
use xtask::servers::{Durability, Redis, Running, Server as _};

const VARIABLE: &str = "PUNCTUAL_REDIS_URL";

struct Prefix {
    address: String,
    name: String,
    proxy: Proxy,
    server: Option<Mutex<Running>>,
    records: PathBuf,
}

impl Prefix {
    async fn new(address: String) -> Result<Self> {
        let name = format!("conformance-{}", unique_name());
        let records = std::env::temp_dir().join(format!("punctual-{name}"));
        if !is_private() {
            let proxy = Proxy::to(&address).await;
            return Ok(Self { address, name, proxy, server: None, records });
        }
        let server = Running::start(&Redis, Durability::Relaxed, &records).map_err(unavailable)?;
        let address = server.address();
        let proxy = Proxy::to(&address).await;
        Ok(Self { address, name, proxy, server: Some(Mutex::new(server)), records })
    }

    async fn command<T: FromRedisValue>(&self, command: &Cmd) -> Result<T> {
        let client = redis::Client::open(self.address.as_str()).map_err(unavailable)?;
        let mut connection =
            client.get_multiplexed_async_connection().await.map_err(unavailable)?;
        command.query_async(&mut connection).await.map_err(unavailable)
    }

    async fn wires(&self, topic: &Topic, rest: String) -> Result<Vec<Wire>> {
        let mut range = cmd("XRANGE");
        range.arg(format!("{}:{topic}.{rest}", self.name)).arg("-").arg("+");
        let letters: Vec<(String, Vec<Vec<u8>>)> = self.command(&range).await?;
        Ok(letters.into_iter().map(|(_, fields)| wire(&fields)).collect())
    }
}

impl Drop for Prefix {
    fn drop(&mut self) {
        if self.server.take().is_some() {
            let _ = std::fs::remove_dir_all(&self.records);
        }
    }
}

/// Returns the fields of an entry as a foreign client reads them.
fn wire(fields: &[Vec<u8>]) -> Wire {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut wire = Wire { headers: Vec::new(), body: Bytes::new(), content_type: "".into() };
    for pair in fields.chunks_exact(2) {
        match &pair[0][..] {
            b"body" => wire.body = pair[1].clone().into(),
            b"content-type" => wire.content_type = text(&pair[1]).into(),
            name => wire.headers.push((text(name).into(), text(&pair[1]))),
        }
    }
    wire
}

#[async_trait::async_trait]
impl Environment for Prefix {
    async fn open(&self) -> Result<Arc<dyn Transport>> {
        let builder = RedisTransport::builder(self.proxy.address()).prefix(&self.name);
        Ok(Arc::new(builder.connect().await?))
    }

    async fn publish_foreign(
        &self,
        topic: &Topic,
        body: &[u8],
        headers: &[(&str, &str)],
    ) -> Result<()> {
        let mut add = cmd("XADD");
        add.arg(format!("{}:{topic}", self.name)).arg("*").arg("body").arg(body).arg(headers);
        self.command::<String>(&add).await.map(drop)
    }

    async fn dead(&self, topic: &Topic, group: &str) -> Result<Vec<Wire>> {
        self.wires(topic, format!("{group}.dead")).await
    }

    async fn invalid(&self, topic: &Topic, group: &str) -> Result<Vec<Wire>> {
        self.wires(topic, format!("{group}.invalid")).await
    }

    async fn restart(&self) -> Result<()> {
        let Some(server) = &self.server else {
            return Err(Error::unsupported("others use the same server"));
        };
        let mut server = server.lock().unwrap_or_else(PoisonError::into_inner);
        tokio::task::block_in_place(|| server.crash().and_then(|()| server.serve()))
            .map_err(unavailable)
    }

    async fn cut(&self) -> Result<()> {
        self.command(cmd("CLIENT").arg("KILL").arg("TYPE").arg("normal")).await
    }

    fn proxy(&self) -> Option<&Proxy> {
        Some(&self.proxy)
    }

    async fn remove(&self) -> Result<()> {
        let keys: Vec<String> = self.command(cmd("KEYS").arg(format!("{}:*", self.name))).await?;
        if keys.is_empty() {
            return Ok(());
        }
        self.command(cmd("DEL").arg(keys)).await
    }
}

/// Returns whether a server can be started for each case.
fn is_private() -> bool {
    Redis.is_installed()
}

fn unavailable(error: impl std::fmt::Display) -> Error {
    Error::unavailable(format!("{error:#}"))
}

fn main() -> ExitCode {
    let mut backend = Backend::at(VARIABLE, |address| async move { Prefix::new(address).await });
    if !is_private() {
        let why = "others use the same server, and none can be started here";
        backend = backend.cannot(Need::Restart, why).cannot(Need::Cut, why);
    }
    transport::run("redis", backend)
}
