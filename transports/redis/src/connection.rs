//! Connection to the server, opened again when it is lost. Many callers share it; calls during connecting wait
//! for the same attempt. Connecting and each call have a timeout.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use punctual::jiff::Timestamp;
use punctual::{Error, clock};
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Cmd, FromRedisValue, Pipeline, RedisError, RedisResult, ScriptInvocation,
};

use crate::address::Address;
use crate::error;

/// Timeout of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Idle time after which a connection may have been cut unnoticed.
const IDLE_MAX: Duration = Duration::from_secs(5);

type ConnectingFuture = Shared<BoxFuture<'static, RedisResult<MultiplexedConnection>>>;

/// Shared connection to the server.
pub(crate) struct BrokerConnection {
    address: Address,
    /// Timeout of one call.
    timeout: Duration,
    state: Mutex<ConnectionState>,
}

/// Present connection and its use.
#[derive(Default)]
struct ConnectionState {
    /// Number of the connection, so that a late error of an old connection does not close a new one.
    number: u64,
    connecting: Option<ConnectingFuture>,
    used_at: Timestamp,
}

/// Open connection and its number.
pub(crate) struct OpenedConnection {
    pub(crate) connection: MultiplexedConnection,
    pub(crate) number: u64,
}

impl BrokerConnection {
    pub(crate) fn new(address: Address, timeout: Duration) -> Self {
        Self { address, timeout, state: Mutex::default() }
    }

    /// Returns another connection to the same server, with a timeout longer by `more`.
    pub(crate) fn with_longer_timeout(&self, more: Duration) -> Self {
        Self::new(self.address.clone(), self.timeout + more)
    }

    /// Returns the present connection, or opens a new one.
    pub(crate) async fn open(&self) -> RedisResult<OpenedConnection> {
        let (number, connecting) = self.connecting();
        let opened = connecting.await.map(|connection| OpenedConnection { connection, number });
        if opened.is_err() {
            self.drop_connection(number);
        }
        opened
    }

    /// Pings the server when the connection was idle for a while. A call that must not be repeated would
    /// otherwise fail on a connection that was cut.
    pub(crate) async fn ping_if_idle(&self, now: Timestamp) {
        let is_stale = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let idle = clock::between(state.used_at, now);
            state.used_at = now;
            state.connecting.is_some() && idle > IDLE_MAX
        };
        if is_stale {
            let _ = self.query::<()>(&redis::cmd("PING")).await;
        }
    }

    pub(crate) async fn query<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<T> {
        let OpenedConnection { mut connection, number } = self.open().await?;
        let result = command.query_async(&mut connection).await;
        self.drop_if_lost(number, &result);
        result
    }

    pub(crate) async fn pipeline<T: FromRedisValue>(&self, calls: &Pipeline) -> RedisResult<T> {
        let OpenedConnection { mut connection, number } = self.open().await?;
        let result = calls.query_async(&mut connection).await;
        self.drop_if_lost(number, &result);
        result
    }

    pub(crate) async fn script<T: FromRedisValue>(
        &self,
        call: &ScriptInvocation<'_>,
    ) -> RedisResult<T> {
        let OpenedConnection { mut connection, number } = self.open().await?;
        let result = call.invoke_async(&mut connection).await;
        self.drop_if_lost(number, &result);
        result
    }

    /// Runs a pipeline that may be repeated without a second effect, once more on a new connection when the
    /// present one is lost.
    pub(crate) async fn retry_pipeline<T: FromRedisValue>(
        &self,
        calls: &Pipeline,
    ) -> RedisResult<T> {
        match self.pipeline(calls).await {
            Err(error) if error::is_lost(&error) => self.pipeline(calls).await,
            result => result,
        }
    }

    /// Runs a script that may be repeated; returns also whether it ran again, because the first run may have had
    /// its effect.
    pub(crate) async fn retry_script<T: FromRedisValue>(
        &self,
        call: &ScriptInvocation<'_>,
    ) -> RedisResult<(T, bool)> {
        match self.script(call).await {
            Err(error) if error::is_lost(&error) => Ok((self.script(call).await?, true)),
            result => Ok((result?, false)),
        }
    }

    /// Maps an error of this server.
    pub(crate) fn map_error(&self, error: &RedisError) -> Error {
        error::map_error(error, &self.address.endpoint)
    }

    /// Returns host, port and database for messages.
    pub(crate) fn endpoint(&self) -> &str {
        &self.address.endpoint
    }

    fn connecting(&self) -> (u64, ConnectingFuture) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(connecting) = &state.connecting {
            return (state.number, connecting.clone());
        }
        let client = self.address.client.clone();
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(self.timeout));
        let connecting =
            async move { client.get_multiplexed_async_connection_with_config(&config).await };
        let connecting = connecting.boxed().shared();
        state.number += 1;
        state.connecting = Some(connecting.clone());
        (state.number, connecting)
    }

    /// Drops the connection when a call found it lost.
    fn drop_if_lost<T>(&self, number: u64, result: &RedisResult<T>) {
        if result.as_ref().is_err_and(error::is_lost) {
            self.drop_connection(number);
        }
    }

    /// Drops a connection, so that the next call opens another.
    fn drop_connection(&self, number: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.number == number {
            state.connecting = None;
        }
    }
}

impl fmt::Debug for BrokerConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrokerConnection").field("address", &self.address).finish_non_exhaustive()
    }
}
