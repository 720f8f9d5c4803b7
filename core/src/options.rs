//! Options of a process, each with its meaning, default and reason.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::model::{PAYLOAD_MAX_DEFAULT, THRESHOLD_DEFAULT};

/// Options of a process. Every field has a default that is meant for production.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // each is a switch of its own
#[non_exhaustive]
pub struct Options {
    /// Interval at which the storage is polled for changes without a notification, on the grid of the clock.
    /// Default 1 s; half as often while the storage notifies across processes. Services wake by themselves
    /// when something becomes due; polling is the safety net.
    pub poll_interval: Duration,
    /// Duration of a lease without renewal, after which a message is stale. Default 5 min. It is renewed after
    /// a third of it. Exactly at its end a lease still holds; strictly after it the message is
    /// stale and may be rescued.
    pub lease_duration: Duration,
    /// Interval of this process's heartbeats. Default 10 s; after three missed heartbeats other processes free
    /// its messages.
    pub heartbeat_interval: Duration,
    /// Longest interval between two searches for stale messages. Default 30 s, and never longer than three
    /// heartbeats. The rescuer also searches as soon as a lease, or the heartbeat of a process that holds one,
    /// has expired, so that the work of a process that is gone is freed immediately, however long its leases are.
    pub rescue_interval: Duration,
    /// Lateness above which (strictly) an occurrence is a misfire, for jobs without a threshold of their own.
    /// Default 1 min.
    pub misfire_threshold: Duration,
    /// Timeout of attempts where no layer of handler options has one. Default none.
    pub timeout: Option<Duration>,
    /// Number of attempts of a queue that run in parallel, for queues without their own limit. Default 100: handlers
    /// mostly wait for something, and a claim takes at most as many messages as there are free slots.
    /// Give a queue whose handlers keep a processor busy about as many as there are processors.
    pub concurrency: usize,
    /// Largest number of jobs fired, messages relayed or leases rescued in one turn. Default 100.
    pub batch_max: usize,
    /// Time that a shutdown leaves handlers to finish by themselves. Default 30 s.
    pub drain_timeout: Duration,
    /// Time that a handler has to end after it was asked to stop. Default 5 s.
    pub cancel_timeout: Duration,
    /// Timeout of a settlement. After it the slot is released: the rescuer handles an
    /// expired lease, a broker delivers the message again. Default 1 min.
    pub settle_timeout: Duration,
    /// Timeout for a transport to confirm messages of the relay; past it they are sent again. Default 30 s;
    /// never more than half of `lease_duration`.
    pub publish_timeout: Duration,
    /// Largest payload in bytes. Default 1 MiB.
    pub payload_max: usize,
    /// Size in bytes above which bodies are compressed in storages and transports. Default none: no body is
    /// compressed. Compressed bodies are read independent of this setting.
    pub compress_above_bytes: Option<usize>,
    /// Largest number of concurrent requests that wait for a reply. Default 1,000; one more is refused.
    pub requests_max: usize,
    /// Age up to which an instant in the past counts as now. Default 1 s.
    pub past_tolerance: Duration,
    /// Age above which finished messages and history are deleted. Default none: they are kept.
    pub retention: Option<Duration>,
    /// Whether this process fires jobs. Default yes. If not, it still declares its own jobs when it starts, and
    /// retires none.
    pub scheduling: bool,
    /// Whether this process runs handlers. Default yes.
    pub handling: bool,
    /// Whether this process sends due messages to transports. Default yes.
    pub relaying: bool,
    /// Whether this process frees messages of processes that are gone, and prunes. Default yes.
    pub maintenance: bool,
    /// Whether a process that declares no job at all retires the jobs it declared before. Default no.
    pub allow_empty_reconcile: bool,
    /// Address of the dashboard, such as `https://punctual.example.com`, for links in events of dead
    /// letters. Default none: they have no link.
    pub dashboard_url: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            poll_interval: Duration::from_secs(1),
            lease_duration: Duration::from_secs(300),
            heartbeat_interval: Duration::from_secs(10),
            rescue_interval: Duration::from_secs(30),
            misfire_threshold: THRESHOLD_DEFAULT,
            timeout: None,
            concurrency: 100,
            batch_max: 100,
            drain_timeout: Duration::from_secs(30),
            cancel_timeout: Duration::from_secs(5),
            settle_timeout: Duration::from_secs(60),
            publish_timeout: Duration::from_secs(30),
            payload_max: PAYLOAD_MAX_DEFAULT,
            compress_above_bytes: None,
            requests_max: 1_000,
            past_tolerance: Duration::from_secs(1),
            retention: None,
            scheduling: true,
            handling: true,
            relaying: true,
            maintenance: true,
            allow_empty_reconcile: false,
            dashboard_url: None,
        }
    }
}

impl Options {
    /// Checks the values; the error names the first option that cannot work.
    pub fn check(&self) -> Result<()> {
        let positive = [
            ("poll_interval", self.poll_interval),
            ("lease_duration", self.lease_duration),
            ("heartbeat_interval", self.heartbeat_interval),
            ("rescue_interval", self.rescue_interval),
            ("settle_timeout", self.settle_timeout),
            ("publish_timeout", self.publish_timeout),
        ];
        for (name, value) in positive {
            if value.is_zero() {
                return Err(Error::invalid(format!("{name} is zero; use a duration such as 1s")));
            }
        }
        for (name, value) in [
            ("concurrency", self.concurrency),
            ("batch_max", self.batch_max),
            ("payload_max", self.payload_max),
            ("requests_max", self.requests_max),
        ] {
            if value == 0 {
                return Err(Error::invalid(format!("{name} is 0; it must be at least 1")));
            }
        }
        if self.compress_above_bytes.is_some() {
            crate::compression::check()?;
        }
        if self.timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(Error::invalid(
                "timeout is zero, so every attempt would fail immediately; leave it out for none",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: H-10, H-11, H-24, H-39, H-78, U-24
    #[test]
    fn defaults_are_those_of_the_decisions() {
        let options = Options::default();
        assert_eq!(options.poll_interval, Duration::from_secs(1));
        assert_eq!(options.lease_duration, Duration::from_secs(5 * 60));
        assert_eq!(options.rescue_interval, Duration::from_secs(30));
        assert_eq!(options.misfire_threshold, Duration::from_secs(60));
        assert_eq!(options.timeout, None);
        assert_eq!(options.retention, None);
        options.check().unwrap();
    }

    #[test]
    fn values_that_cannot_work_are_refused_by_name() {
        let error =
            Options { lease_duration: Duration::ZERO, ..Options::default() }.check().unwrap_err();
        assert!(error.to_string().contains("lease_duration"));
        let error = Options { concurrency: 0, ..Options::default() }.check().unwrap_err();
        assert!(error.to_string().contains("concurrency"));
    }
}
