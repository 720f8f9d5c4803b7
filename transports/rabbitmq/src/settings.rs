//! Settings of a transport, and calls to the broker within their timeout.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use lapin::uri::AMQPUri;
use punctual::backend::wire::Wrapping;
use punctual::clock::{add, within};
use punctual::{Clock, Result};

use crate::error::{connection_lost, map_error, timed_out};

/// Interval at which a long call checks that its connection is still open.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Type of the queues of groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueKind {
    /// Replicated; the broker counts the deliveries of a message.
    #[default]
    Quorum,
    /// On one node; the broker only flags a message as redelivered, and delays are left to the storage.
    Classic,
}

/// Options of a transport.
pub(crate) struct Settings {
    pub(crate) uri: AMQPUri,
    pub(crate) prefix: String,
    pub(crate) queues: QueueKind,
    pub(crate) declare: bool,
    pub(crate) delay_max: Duration,
    pub(crate) payload_max: usize,
    pub(crate) timeout: Duration,
    pub(crate) wrapping: Wrapping,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Settings {
    /// Returns host and port of the broker for messages, without credentials.
    pub(crate) fn endpoint(&self) -> String {
        format!("{}:{}", self.uri.authority.host, self.uri.authority.port)
    }

    /// Returns whether the broker counts the deliveries of a message.
    pub(crate) fn counts_deliveries(&self) -> bool {
        self.queues == QueueKind::Quorum
    }

    /// Calls the broker, within the timeout.
    pub(crate) async fn call<T>(
        &self,
        doing: impl fmt::Display,
        work: impl Future<Output = lapin::Result<T>>,
    ) -> Result<T> {
        self.call_while_connected(doing, || false, work).await
    }

    /// Calls the broker within the timeout, and only while the connection exists. The client passes some calls
    /// to a task of the connection; a call that is queued when the connection ends never returns, not even with
    /// an error.
    pub(crate) async fn call_while_connected<T>(
        &self,
        doing: impl fmt::Display,
        is_lost: impl Fn() -> bool,
        work: impl Future<Output = lapin::Result<T>>,
    ) -> Result<T> {
        let (clock, until) = (&*self.clock, add(self.clock.now(), self.timeout));
        let mut work = pin!(work);
        loop {
            let check_at = add(clock.now(), CHECK_INTERVAL).min(until);
            match within(clock, check_at, work.as_mut()).await {
                Some(Ok(value)) => return Ok(value),
                Some(Err(error)) => return Err(map_error(&self.endpoint(), doing, error)),
                None if is_lost() => return Err(connection_lost(&self.endpoint(), doing)),
                None if clock.now() >= until => return Err(timed_out(&self.endpoint(), doing)),
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures_util::FutureExt as _;
    use punctual::Error;
    use punctual::ManualClock;
    use punctual::jiff::Timestamp;

    use super::*;
    use crate::address;

    fn settings(clock: &Arc<ManualClock>) -> Settings {
        Settings {
            uri: address::parse("amqp://guest:guest@127.0.0.1:5672/%2f").unwrap(),
            prefix: String::new(),
            queues: QueueKind::Quorum,
            declare: true,
            delay_max: Duration::ZERO,
            payload_max: 1,
            timeout: Duration::from_secs(30),
            wrapping: Wrapping::default(),
            clock: clock.clone(),
        }
    }

    /// Returns the error of a call that never returns, after the clock was advanced.
    fn unanswered(moved: Duration, is_lost: bool) -> Option<Error> {
        let clock = Arc::new(ManualClock::new(Timestamp::UNIX_EPOCH));
        let settings = settings(&clock);
        let work = pending::<lapin::Result<()>>();
        let mut calling = pin!(settings.call_while_connected("acknowledging", || is_lost, work));
        assert!(calling.as_mut().now_or_never().is_none());
        clock.advance(moved);
        calling.now_or_never().map(Result::unwrap_err)
    }

    #[test]
    fn a_call_that_never_returns_ends_with_its_connection_or_its_timeout() {
        assert!(unanswered(CHECK_INTERVAL / 2, true).is_none());
        let error = unanswered(CHECK_INTERVAL, true).unwrap();
        assert!(error.is_temporary() && error.to_string().contains("was lost"), "{error}");
        assert!(unanswered(Duration::from_secs(29), false).is_none());
        let error = unanswered(Duration::from_secs(30), false).unwrap();
        assert!(error.is_temporary() && error.to_string().contains("in time"), "{error}");
    }
}
