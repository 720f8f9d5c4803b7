//! What can be set about the transport, and the first connection: what is wrong with the address, the
//! credentials or the server is said here and not at the first message.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use punctual::clock::{Clock, SystemClock};
use punctual::model::{Ids, NAME_LENGTH_MAX};
use punctual::wire::Wrapping;
use punctual::{Error, Result};

use crate::RedisTransport;
use crate::address::Address;
use crate::link::Link;
use crate::producer::Producer;
use crate::server;

const PREFIX: &str = "punctual";
const HOLD_LENGTH: Duration = Duration::from_secs(60);
const HOLD_LENGTH_MIN: Duration = Duration::from_millis(100);
const TIMEOUT: Duration = Duration::from_secs(10);
const PAYLOAD_MAX: usize = 16 * 1024 * 1024;
/// The server takes no larger values, unless it is told to.
const PAYLOAD_LIMIT: usize = 512 * 1024 * 1024;

/// How long entries stay in a topic's stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// Until every group of the topic has handled them; without a group, for ever. A group that never
    /// comes back keeps everything: remove it with `XGROUP DESTROY`.
    #[default]
    UntilHandled,
    /// About so many of the newest, whether they were handled or not: what is older is lost to groups
    /// that have not read it.
    Newest(usize),
    /// For ever; somebody else trims the stream.
    Forever,
}

/// What can be set about the transport.
#[must_use = "a builder does nothing until it connects"]
pub struct RedisBuilder {
    address: String,
    prefix: String,
    root_certificate: Option<Vec<u8>>,
    clock: Arc<dyn Clock>,
    declares: bool,
    keep: Keep,
    hold_length: Duration,
    timeout: Duration,
    payload_max: usize,
    durable: Option<bool>,
    wrapping: Option<Wrapping>,
}

impl RedisBuilder {
    pub(crate) fn new(address: String) -> Self {
        Self {
            address,
            prefix: PREFIX.to_owned(),
            root_certificate: None,
            clock: Arc::new(SystemClock),
            declares: true,
            keep: Keep::default(),
            hold_length: HOLD_LENGTH,
            timeout: TIMEOUT,
            payload_max: PAYLOAD_MAX,
            durable: None,
            wrapping: None,
        }
    }

    /// How the names of all keys begin; `punctual` unless said otherwise. A colon follows.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Whether missing streams and groups are made; they are, unless said otherwise.
    pub fn declare(mut self, declares: bool) -> Self {
        self.declares = declares;
        self
    }

    /// How long entries stay in a topic's stream; until every group has handled them, unless said
    /// otherwise.
    pub fn keep(mut self, keep: Keep) -> Self {
        self.keep = keep;
        self
    }

    /// What a process that is gone had in hand is taken over by others after so long; 60 seconds unless
    /// said otherwise. A process that lives extends its holds three times as often.
    pub fn hold_length(mut self, length: Duration) -> Self {
        self.hold_length = length;
        self
    }

    /// How long the server may take to answer; 10 seconds unless said otherwise.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The largest body in bytes; 16 MiB unless said otherwise, and 512 MiB at most. Redis keeps all of
    /// them in memory.
    pub fn payload_max(mut self, bytes: usize) -> Self {
        self.payload_max = bytes;
        self
    }

    /// Whether accepted messages survive a restart of the server; unless said otherwise, the server is
    /// asked whether it has an append-only file, and no answer means no.
    pub fn durable(mut self, durable: bool) -> Self {
        self.durable = Some(durable);
        self
    }

    /// The authority, as PEM, that the server's certificate is checked against; without it, the ones
    /// that browsers trust.
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.root_certificate = Some(pem.into());
        self
    }

    /// What messages are published in; see [`Wrapping`].
    pub fn envelope(mut self, envelope: impl Into<Wrapping>) -> Self {
        self.wrapping = Some(envelope.into());
        self
    }

    /// Where time comes from; the system's clock unless said otherwise.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Connects, and refuses what cannot work.
    pub async fn connect(self) -> Result<RedisTransport> {
        self.check()?;
        let (address, wrapping) = Wrapping::at(&self.address, self.wrapping.clone())?;
        let address = Address::parse(&address, self.root_certificate.as_deref())?;
        let link = Link::new(address, self.timeout);
        link.open().await.map_err(|error| link.told(&error).during("connect"))?;
        server::check(&link).await?;
        let durable = match self.durable {
            Some(durable) => durable,
            None => server::is_durable(&link).await,
        };
        server::warn_of_eviction(&link).await;
        let entries_max = match self.keep {
            Keep::Newest(count) => Some(count),
            Keep::UntilHandled | Keep::Forever => None,
        };
        let (prefix, payload_max) = (self.prefix, self.payload_max);
        Ok(RedisTransport {
            link: Arc::new(link),
            producer: Producer { prefix, payload_max, entries_max, wrapping },
            clock: self.clock,
            ids: Ids::random(),
            declares: self.declares,
            trims: self.keep == Keep::UntilHandled,
            hold_length: self.hold_length,
            durable,
        })
    }

    fn check(&self) -> Result<()> {
        let Self { prefix, hold_length, payload_max, timeout, .. } = self;
        let fits = !prefix.is_empty() && prefix.chars().count() <= NAME_LENGTH_MAX;
        if !fits || prefix.chars().any(char::is_control) {
            return Err(Error::invalid(format!(
                "the prefix {prefix:?} must have 1 to {NAME_LENGTH_MAX} printable characters"
            )));
        }
        if *hold_length < HOLD_LENGTH_MIN {
            return Err(Error::invalid(format!(
                "a hold_length of {hold_length:?} is too short to be extended in time; give at least {HOLD_LENGTH_MIN:?}"
            )));
        }
        if *payload_max == 0 || *payload_max > PAYLOAD_LIMIT {
            return Err(Error::invalid(format!(
                "a payload_max of {payload_max} bytes is not possible; Redis takes 1 to {PAYLOAD_LIMIT}"
            )));
        }
        if timeout.is_zero() {
            return Err(Error::invalid("a timeout of zero lets no call succeed; give some time"));
        }
        if self.keep == Keep::Newest(0) {
            return Err(Error::invalid("a stream that keeps no entries carries no messages"));
        }
        Ok(())
    }
}

impl fmt::Debug for RedisBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address may hold a password.
        f.debug_struct("RedisBuilder").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_settings_are_refused_by_value() {
        let builder = || RedisBuilder::new("redis://h".to_owned());
        builder().check().unwrap();
        for (builder, value) in [
            (builder().prefix(""), "\"\""),
            (builder().hold_length(Duration::from_millis(1)), "1ms"),
            (builder().payload_max(PAYLOAD_LIMIT + 1), "536870913"),
            (builder().timeout(Duration::ZERO), "zero"),
            (builder().keep(Keep::Newest(0)), "no entries"),
        ] {
            let error = builder.check().unwrap_err().to_string();
            assert!(error.contains(value), "{error}");
        }
        let shown = format!("{:?}", RedisBuilder::new("redis://u:secret@h".to_owned()));
        assert!(!shown.contains("secret"), "{shown}");
    }
}
