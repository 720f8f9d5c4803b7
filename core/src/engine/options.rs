//! The options of a process, each with its meaning, default and reason.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::model::PAYLOAD_MAX_DEFAULT;
use crate::policy::THRESHOLD_DEFAULT;

/// How a process works. Every field has a default that is meant for production.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // each is a switch of its own
#[non_exhaustive]
pub struct Options {
    /// How often the storage is looked at for what nobody rang for, on the grid of the clock. Default
    /// 1 s; half as often while the storage itself hears what other processes do. Services wake by
    /// themselves when something becomes due; this is the safety net.
    pub poll_interval: Duration,
    /// How long a claim is good for without being renewed: the threshold of staleness. Default 5 min. It
    /// is renewed at a third. Exactly at its end a lease still holds; strictly after it the message is
    /// stale and may be rescued.
    pub lease_duration: Duration,
    /// How often this process says that it lives. Default 10 s; after three missed beats the others free
    /// what it holds.
    pub heartbeat_interval: Duration,
    /// How often stale messages are looked for at least. Default 30 s, and never longer than three beats. The
    /// rescuer also looks as soon as a lease or the heartbeat of a process that holds one has expired, so
    /// that the work of a process that is gone is freed at once, whatever the length of its leases.
    pub rescue_interval: Duration,
    /// Later than this (strictly) is a misfire, for jobs that say nothing else. Default 1 min.
    pub misfire_threshold: Duration,
    /// How long an attempt may take when neither message nor job says. Default none.
    pub timeout: Option<Duration>,
    /// How many attempts of a queue run at once, for queues that say nothing else. Default 100: handlers
    /// mostly wait for something, and a claim takes at most as many messages as there are free slots.
    /// Give a queue whose handlers keep a processor busy about as many as there are processors.
    pub concurrency: usize,
    /// How many jobs are fired, or leases rescued, in one turn. Default 100.
    pub batch: usize,
    /// How long shutdown lets handlers finish by themselves. Default 30 s.
    pub drain: Duration,
    /// How long a handler that was asked to stop may take to wind down. Default 5 s.
    pub grace: Duration,
    /// How long a settlement may take. Past it the settlement is given up and its slot is free: a lease is
    /// left to the rescuer, a broker delivers the message again. Default 1 min.
    pub settle_timeout: Duration,
    /// How long a transport may take to confirm what the relay hands it before that counts as a failure
    /// and is tried again. Default 30 s; never more than half of `lease_duration`.
    pub publish_timeout: Duration,
    /// The largest payload in bytes. Default 1 MiB.
    pub payload_max: usize,
    /// Bodies larger than this many bytes are compressed while they are stored and carried. Default none:
    /// nothing is. What is read was compressed or not, whatever is set here.
    pub compress_above: Option<usize>,
    /// How many requests may wait for their reply at once. Default 1,000; one more is refused.
    pub requests_max: usize,
    /// How far in the past an instant may lie and still count as now. Default 1 s.
    pub past_tolerance: Duration,
    /// Finished messages and history older than this are deleted. Default none: nothing is.
    pub retention: Option<Duration>,
    /// Whether this process fires jobs. Default yes. Without it the process still declares its own jobs when it
    /// starts, and retires none.
    pub scheduling: bool,
    /// Whether this process runs handlers. Default yes.
    pub handling: bool,
    /// Whether this process hands due messages to transports. Default yes.
    pub relaying: bool,
    /// Whether this process frees what processes that are gone have left behind, and prunes. Default yes.
    pub upkeep: bool,
    /// Whether a process that declares no job at all retires what it declared before. Default no.
    pub allow_empty_reconcile: bool,
    /// Where people open the dashboard, such as `https://punctual.example.com`: events of messages that were
    /// given up link to it. Default none: they have no link.
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
            batch: 100,
            drain: Duration::from_secs(30),
            grace: Duration::from_secs(5),
            settle_timeout: Duration::from_secs(60),
            publish_timeout: Duration::from_secs(30),
            payload_max: PAYLOAD_MAX_DEFAULT,
            compress_above: None,
            requests_max: 1_000,
            past_tolerance: Duration::from_secs(1),
            retention: None,
            scheduling: true,
            handling: true,
            relaying: true,
            upkeep: true,
            allow_empty_reconcile: false,
            dashboard_url: None,
        }
    }
}

impl Options {
    /// Refuses values that cannot work, each by name.
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
                return Err(Error::invalid(format!("{name} is zero; give it a length such as 1s")));
            }
        }
        for (name, value) in [
            ("concurrency", self.concurrency),
            ("batch", self.batch),
            ("payload_max", self.payload_max),
            ("requests_max", self.requests_max),
        ] {
            if value == 0 {
                return Err(Error::invalid(format!("{name} is 0; it must be at least 1")));
            }
        }
        if self.compress_above.is_some() {
            crate::compression::check()?;
        }
        if self.timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(Error::invalid(
                "timeout is zero, so every attempt would fail at once; leave it out for none",
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
