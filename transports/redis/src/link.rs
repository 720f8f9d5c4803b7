//! A connection that is made again when it is lost. Many callers share it; those who come while it is being
//! made wait for the same attempt. An attempt and a call each have an end: nothing hangs for ever.

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
use crate::fault;

/// How long an attempt to connect may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// After so long without a call a connection may have been cut unnoticed.
const FRESH_FOR: Duration = Duration::from_secs(5);

type Connecting = Shared<BoxFuture<'static, RedisResult<MultiplexedConnection>>>;

/// A shared connection to the server.
pub(crate) struct Link {
    address: Address,
    /// How long the answer to a call may take.
    patience: Duration,
    slot: Mutex<Slot>,
}

#[derive(Default)]
struct Slot {
    /// Counts connections, so that an old failure does not end a new one.
    number: u64,
    connecting: Option<Connecting>,
    used_at: Timestamp,
}

/// A connection and its number.
pub(crate) struct Opened {
    pub(crate) connection: MultiplexedConnection,
    pub(crate) number: u64,
}

impl Link {
    pub(crate) fn new(address: Address, patience: Duration) -> Self {
        Self { address, patience, slot: Mutex::default() }
    }

    /// Another connection to the same server, with more patience.
    pub(crate) fn another(&self, more: Duration) -> Self {
        Self::new(self.address.clone(), self.patience + more)
    }

    /// The present connection, or a new one.
    pub(crate) async fn open(&self) -> RedisResult<Opened> {
        let (number, connecting) = self.connecting();
        let opened = connecting.await.map(|connection| Opened { connection, number });
        if opened.is_err() {
            self.forget(number);
        }
        opened
    }

    /// Makes sure that a connection which was not used for a while is still there. A call that must not
    /// be repeated would otherwise fail for nothing.
    pub(crate) async fn refresh(&self, now: Timestamp) {
        let is_stale = {
            let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
            let idle = clock::between(slot.used_at, now);
            slot.used_at = now;
            slot.connecting.is_some() && idle > FRESH_FOR
        };
        if is_stale {
            let _ = self.query::<()>(&redis::cmd("PING")).await;
        }
    }

    pub(crate) async fn query<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<T> {
        let Opened { mut connection, number } = self.open().await?;
        let answer = command.query_async(&mut connection).await;
        self.note(number, &answer);
        answer
    }

    pub(crate) async fn pipeline<T: FromRedisValue>(&self, calls: &Pipeline) -> RedisResult<T> {
        let Opened { mut connection, number } = self.open().await?;
        let answer = calls.query_async(&mut connection).await;
        self.note(number, &answer);
        answer
    }

    pub(crate) async fn script<T: FromRedisValue>(
        &self,
        call: &ScriptInvocation<'_>,
    ) -> RedisResult<T> {
        let Opened { mut connection, number } = self.open().await?;
        let answer = call.invoke_async(&mut connection).await;
        self.note(number, &answer);
        answer
    }

    /// The same for calls that change nothing the second time: made again on a new connection when the
    /// present one is lost.
    pub(crate) async fn pipeline_again<T: FromRedisValue>(
        &self,
        calls: &Pipeline,
    ) -> RedisResult<T> {
        match self.pipeline(calls).await {
            Err(error) if fault::is_lost(&error) => self.pipeline(calls).await,
            answer => answer,
        }
    }

    /// The same for a script; also answers whether it was made again, for then the first may have
    /// done all there was to do.
    pub(crate) async fn script_again<T: FromRedisValue>(
        &self,
        call: &ScriptInvocation<'_>,
    ) -> RedisResult<(T, bool)> {
        match self.script(call).await {
            Err(error) if fault::is_lost(&error) => Ok((self.script(call).await?, true)),
            answer => Ok((answer?, false)),
        }
    }

    /// An error of this server, for the caller.
    pub(crate) fn told(&self, error: &RedisError) -> Error {
        fault::told(error, &self.address.place)
    }

    /// Host, port and database, for people.
    pub(crate) fn place(&self) -> &str {
        &self.address.place
    }

    fn connecting(&self) -> (u64, Connecting) {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(connecting) = &slot.connecting {
            return (slot.number, connecting.clone());
        }
        let client = self.address.client.clone();
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_WITHIN))
            .set_response_timeout(Some(self.patience));
        let connecting =
            async move { client.get_multiplexed_async_connection_with_config(&config).await };
        let connecting = connecting.boxed().shared();
        slot.number += 1;
        slot.connecting = Some(connecting.clone());
        (slot.number, connecting)
    }

    /// Looks at how a call went.
    fn note<T>(&self, number: u64, answer: &RedisResult<T>) {
        if answer.as_ref().is_err_and(fault::is_lost) {
            self.forget(number);
        }
    }

    /// Forgets a connection, so that the next call makes another.
    fn forget(&self, number: u64) {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.number == number {
            slot.connecting = None;
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("address", &self.address).finish_non_exhaustive()
    }
}
