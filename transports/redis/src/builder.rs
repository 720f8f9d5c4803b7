//! Builder of the Redis transport: options, their checks and the first connection, so that a wrong address,
//! credential or server fails here and not at the first message.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use punctual::backend::transport::settings::CommonSettings;
use punctual::model::{Ids, NAME_LEN_MAX};
use punctual::{Error, Result, common_transport_options};

use crate::RedisTransport;
use crate::address::Address;
use crate::connection::BrokerConnection;
use crate::producer::Producer;
use crate::server;

const VISIBILITY_TIMEOUT: Duration = Duration::from_secs(60);
const VISIBILITY_TIMEOUT_MIN: Duration = Duration::from_millis(100);
const PAYLOAD_MAX: usize = 16 * 1024 * 1024;
/// Default limit of the server for one value.
const PAYLOAD_LIMIT: usize = 512 * 1024 * 1024;

/// Retention of entries in a topic's stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retention {
    /// Until every group of the topic has handled them; without a group, forever. A group whose consumers never
    /// return retains everything: remove it with `XGROUP DESTROY`.
    #[default]
    UntilHandled,
    /// About this many of the newest entries, handled or not: older entries are lost to groups that have not
    /// read them.
    Newest(usize),
    /// Forever; another program trims the stream.
    Forever,
}

/// Builder of a [`RedisTransport`].
#[must_use = "a builder does nothing until it connects"]
pub struct RedisBuilder {
    common: CommonSettings,
    root_certificate: Option<Vec<u8>>,
    retention: Retention,
    visibility_timeout: Duration,
    durable: Option<bool>,
}

impl RedisBuilder {
    pub(crate) fn new(address: String) -> Self {
        Self {
            common: CommonSettings { payload_max: PAYLOAD_MAX, ..CommonSettings::new(address) },
            root_certificate: None,
            retention: Retention::default(),
            visibility_timeout: VISIBILITY_TIMEOUT,
            durable: None,
        }
    }

    /// Sets how long entries stay in a topic's stream; default [`Retention::UntilHandled`].
    pub fn retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }

    /// Sets how long a delivery stays invisible to other consumers after its process is gone; default 60
    /// seconds. A live process extends its deliveries three times per timeout.
    pub fn visibility_timeout(mut self, timeout: Duration) -> Self {
        self.visibility_timeout = timeout;
        self
    }

    /// Sets whether accepted messages survive a restart of the server. By default the server's `appendonly`
    /// setting decides; if it cannot be read, messages count as not durable.
    pub fn durable(mut self, durable: bool) -> Self {
        self.durable = Some(durable);
        self
    }

    /// Sets the root certificate, as PEM, that the server's certificate is verified against; default: the roots
    /// that browsers trust.
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.root_certificate = Some(pem.into());
        self
    }

    /// Connects. Fails when an option is invalid, or the server cannot be reached or used.
    pub async fn connect(self) -> Result<RedisTransport> {
        self.check()?;
        let (address, wrapping) = self.common.address_and_envelope()?;
        let address = Address::parse(&address, self.root_certificate.as_deref())?;
        let CommonSettings { prefix, declare, timeout, payload_max, clock, .. } = self.common;
        let connection = BrokerConnection::new(address, timeout);
        connection.open().await.map_err(|error| connection.map_error(&error).during("connect"))?;
        server::check(&connection).await?;
        let durable = match self.durable {
            Some(durable) => durable,
            None => server::is_durable(&connection).await,
        };
        server::warn_of_eviction(&connection).await;
        let entries_max = match self.retention {
            Retention::Newest(count) => Some(count),
            Retention::UntilHandled | Retention::Forever => None,
        };
        Ok(RedisTransport {
            connection: Arc::new(connection),
            producer: Producer { prefix, payload_max, entries_max, wrapping },
            clock,
            ids: Ids::random(),
            declares: declare,
            trims: self.retention == Retention::UntilHandled,
            visibility_timeout: self.visibility_timeout,
            durable,
        })
    }

    fn check(&self) -> Result<()> {
        self.common.check(PAYLOAD_LIMIT)?;
        let Self { common: CommonSettings { prefix, .. }, visibility_timeout, .. } = self;
        let fits = !prefix.is_empty() && prefix.chars().count() <= NAME_LEN_MAX;
        if !fits || prefix.chars().any(char::is_control) {
            return Err(Error::invalid(format!(
                "the prefix {prefix:?} must have 1 to {NAME_LEN_MAX} printable characters"
            )));
        }
        if *visibility_timeout < VISIBILITY_TIMEOUT_MIN {
            return Err(Error::invalid(format!(
                "a visibility_timeout of {visibility_timeout:?} is too short to be extended in time; set at least {VISIBILITY_TIMEOUT_MIN:?}"
            )));
        }
        if self.retention == Retention::Newest(0) {
            return Err(Error::invalid(
                "a retention of the newest 0 leaves no entries in a stream; use at least 1",
            ));
        }
        Ok(())
    }
}

common_transport_options! {
    RedisBuilder {
        prefix: "Sets the prefix of all keys, which a colon follows; default `punctual`.",
        declare: "Sets whether missing streams and groups are created; default `true`.",
        timeout: "Sets the timeout of one call to the server; default 10 seconds.",
        payload_max: "Sets the size limit of a body in bytes; default 16 MiB, at most 512 MiB. Redis stores all bodies in memory.",
    }
}

impl fmt::Debug for RedisBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisBuilder").field("common", &self.common).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_options_are_refused_by_value() {
        let builder = || RedisBuilder::new("redis://h".to_owned());
        builder().check().unwrap();
        for (builder, value) in [
            (builder().prefix(""), "\"\""),
            (builder().visibility_timeout(Duration::from_millis(1)), "1ms"),
            (builder().payload_max(PAYLOAD_LIMIT + 1), "536870913"),
            (builder().timeout(Duration::ZERO), "zero"),
            (builder().retention(Retention::Newest(0)), "no entries"),
        ] {
            let error = builder.check().unwrap_err().to_string();
            assert!(error.contains(value), "{error}");
        }
        let shown = format!("{:?}", RedisBuilder::new("redis://u:secret@h".to_owned()));
        assert!(!shown.contains("secret"), "{shown}");
    }
}
