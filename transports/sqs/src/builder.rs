//! Builder of the SQS transport: options, their checks and a first call, so that a wrong address, credential or
//! option fails here and not at the first message.

use std::fmt;
use std::time::Duration;

use punctual::backend::transport::settings::{CommonSettings, check_payload_max};
use punctual::{Error, Result, common_transport_options};

use crate::SqsTransport;
use crate::address::Address;
use crate::connection::BrokerConnection;
use crate::error::CallError;
use crate::groups::GroupCache;
use crate::names::Names;
use crate::producer::Producer;
use crate::settings::Settings;

const VISIBILITY_TIMEOUT: Duration = Duration::from_secs(60);
const VISIBILITY_TIMEOUT_MIN: Duration = Duration::from_secs(2);
const VISIBILITY_TIMEOUT_MAX: Duration = Duration::from_hours(12);
const POLL_TIMEOUT: Duration = Duration::from_secs(5);
const POLL_TIMEOUT_MAX: Duration = Duration::from_secs(20);
const GROUPS_CACHE_TTL: Duration = Duration::from_secs(1);
const GROUPS_CACHE_TTL_MAX: Duration = Duration::from_mins(1);
const RETENTION_MIN: Duration = Duration::from_mins(1);
const RETENTION_MAX: Duration = Duration::from_hours(14 * 24);
const MESSAGE_MAX: usize = 256 * 1024;
const MESSAGE_MIN: usize = 32 * 1024;
/// Limit of SQS since August 2025.
const MESSAGE_LIMIT: usize = 1024 * 1024;
/// Bytes of a message that are reserved for headers and for what a dead letter adds.
const HEADER_HEADROOM: usize = 16 * 1024;

/// Builder of an [`SqsTransport`].
#[must_use = "a builder does nothing until it connects"]
pub struct SqsBuilder {
    common: CommonSettings,
    credentials: Option<(String, String)>,
    retention: Option<Duration>,
    visibility_timeout: Duration,
    poll_timeout: Duration,
    groups_cache_ttl: Duration,
}

impl SqsBuilder {
    pub(crate) fn new(address: String) -> Self {
        Self {
            common: CommonSettings { payload_max: MESSAGE_MAX, ..CommonSettings::new(address) },
            credentials: None,
            retention: None,
            visibility_timeout: VISIBILITY_TIMEOUT,
            poll_timeout: POLL_TIMEOUT,
            groups_cache_ttl: GROUPS_CACHE_TTL,
        }
    }

    /// Sets an access key and its secret; by default those in the address or in the environment: variables, the
    /// shared configuration file, or the machine's role.
    pub fn credentials(mut self, key: impl Into<String>, secret: impl Into<String>) -> Self {
        self.credentials = Some((key.into(), secret.into()));
        self
    }

    /// Sets how long queues retain messages, dead letters included. Default: 14 days, the maximum, for queues
    /// that are created; existing queues keep their setting.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = Some(retention);
        self
    }

    /// Sets how long a delivery stays invisible to other consumers after its process is gone; default 60
    /// seconds. A live process extends its deliveries three times per timeout.
    pub fn visibility_timeout(mut self, timeout: Duration) -> Self {
        self.visibility_timeout = timeout;
        self
    }

    /// Sets how long one poll waits for messages; default 5 seconds, at most 20. Longer polls cost fewer calls;
    /// closing a consumer waits for the last poll.
    pub fn poll_timeout(mut self, timeout: Duration) -> Self {
        self.poll_timeout = timeout;
        self
    }

    /// Sets how long a publisher caches the groups of a topic; default one second, at most a minute. The first
    /// subscription of a group waits this long, so set it alike in all processes.
    pub fn groups_cache_ttl(mut self, ttl: Duration) -> Self {
        self.groups_cache_ttl = ttl;
        self
    }

    /// Connects with one call to SQS. Fails when an option is invalid, or SQS cannot be reached or refuses the
    /// call.
    pub async fn connect(self) -> Result<SqsTransport> {
        self.check()?;
        let (address, wrapping) = self.common.address_and_envelope()?;
        let CommonSettings { prefix, declare, timeout, payload_max: message_max, clock, .. } =
            self.common;
        let names = Names::new(prefix)?;
        let mut address = Address::parse(&address)?;
        if self.credentials.is_some() {
            address.credentials = self.credentials;
        }
        let connection = BrokerConnection::new(&address, timeout, self.poll_timeout).await;
        let probe = connection.calls.list_queues().queue_name_prefix(names.prefix()).max_results(1);
        probe.send().await.map_err(|error| {
            Error::from(CallError::map_error(error, &connection.endpoint)).during("connect")
        })?;
        let settings =
            Settings { names, declares: declare, retention: self.retention, message_max };
        let groups = GroupCache::new(self.groups_cache_ttl);
        let payload_max = message_max - HEADER_HEADROOM;
        Ok(SqsTransport {
            connection,
            producer: Producer { settings, groups, payload_max, wrapping },
            clock,
            visibility_timeout: self.visibility_timeout,
            poll_timeout: self.poll_timeout,
        })
    }

    fn check(&self) -> Result<()> {
        let refused = |what: &str, value: Duration, least: Duration, most: Duration| {
            Err(Error::invalid(format!(
                "a {what} of {value:?} is out of range, use {least:?} to {most:?}"
            )))
        };
        self.common.check(MESSAGE_LIMIT)?;
        check_payload_max(self.common.payload_max, MESSAGE_MIN, MESSAGE_LIMIT)?;
        let Self { visibility_timeout, poll_timeout, .. } = self;
        if !(VISIBILITY_TIMEOUT_MIN..=VISIBILITY_TIMEOUT_MAX).contains(visibility_timeout) {
            return refused(
                "visibility_timeout",
                *visibility_timeout,
                VISIBILITY_TIMEOUT_MIN,
                VISIBILITY_TIMEOUT_MAX,
            );
        }
        let second = Duration::from_secs(1);
        if !(second..=POLL_TIMEOUT_MAX).contains(poll_timeout) {
            return refused("poll_timeout", *poll_timeout, second, POLL_TIMEOUT_MAX);
        }
        if self.groups_cache_ttl > GROUPS_CACHE_TTL_MAX {
            let most = GROUPS_CACHE_TTL_MAX;
            return refused("groups_cache_ttl", self.groups_cache_ttl, Duration::ZERO, most);
        }
        if let Some(retention) = self.retention
            && !(RETENTION_MIN..=RETENTION_MAX).contains(&retention)
        {
            return refused("retention", retention, RETENTION_MIN, RETENTION_MAX);
        }
        Ok(())
    }
}

common_transport_options! {
    SqsBuilder {
        prefix: "Sets the prefix of the names of all queues, which a dash follows; default `punctual`.",
        declare: "Sets whether missing queues are created; default `true`.",
        timeout: "Sets the timeout of one call to SQS; default 10 seconds.",
        payload_max: "Sets the size limit of a message in bytes, headers included; default 256 KiB, which every queue accepts, at most 1 MiB, which only newer queues accept. 16 KiB of it are reserved for headers.",
    }
}

impl fmt::Debug for SqsBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqsBuilder").field("common", &self.common).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_options_are_refused_by_value() {
        let builder = || SqsBuilder::new("http://me:hush@h".to_owned());
        builder().check().unwrap();
        for (builder, value) in [
            (builder().visibility_timeout(Duration::from_secs(1)), "visibility_timeout of 1s"),
            (builder().poll_timeout(Duration::from_secs(21)), "poll_timeout of 21s"),
            (builder().retention(Duration::from_secs(59)), "retention of 59s"),
            (builder().groups_cache_ttl(Duration::from_secs(61)), "groups_cache_ttl of 61s"),
            (builder().timeout(Duration::ZERO), "zero"),
            (builder().payload_max(MESSAGE_LIMIT + 1), "1048577"),
        ] {
            let error = builder.check().unwrap_err().to_string();
            assert!(error.contains(value), "{error}");
            assert!(!format!("{builder:?}").contains("hush"));
        }
    }
}
