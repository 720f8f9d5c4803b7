//! Fixture of a test: a prefix of its own, removed at the end, and a plain client to read its streams.

use punctual_conformance::backend_tests;
use punctual_redis::{RedisBuilder, RedisTransport};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue};

/// Environment variable with the server's address.
pub(crate) const VARIABLE: &str = "PUNCTUAL_REDIS_URL";

/// Prefix whose keys are removed when the test has passed.
pub(crate) struct Fixture {
    pub(crate) address: String,
    pub(crate) prefix: String,
    connection: MultiplexedConnection,
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        let prefix = format!("it[{}]", backend_tests::unique_name());
        let address = backend_tests::address(VARIABLE);
        let client = redis::Client::open(address.as_str()).unwrap();
        let connection = client.get_multiplexed_async_connection().await.unwrap();
        Self { address, prefix, connection }
    }

    pub(crate) fn builder(&self) -> RedisBuilder {
        self.builder_at(&self.address)
    }

    pub(crate) fn builder_at(&self, address: &str) -> RedisBuilder {
        RedisTransport::builder(address).prefix(&self.prefix)
    }

    pub(crate) async fn open(&self) -> RedisTransport {
        self.builder().connect().await.unwrap()
    }

    /// Runs a command on the server, without the transport.
    pub(crate) async fn command<T: FromRedisValue>(&self, command: &mut Cmd) -> T {
        command.query_async(&mut self.connection.clone()).await.unwrap()
    }

    /// Returns the full name of a stream.
    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}:{name}", self.prefix)
    }

    pub(crate) async fn length(&self, name: &str) -> usize {
        self.command(redis::cmd("XLEN").arg(self.key(name))).await
    }

    pub(crate) async fn remove(self) {
        let pattern = format!("{}:*", self.prefix.replace('[', "\\[").replace(']', "\\]"));
        let keys: Vec<String> = self.command(redis::cmd("KEYS").arg(pattern)).await;
        assert!(!keys.is_empty());
        self.command::<()>(redis::cmd("DEL").arg(keys)).await;
    }
}
