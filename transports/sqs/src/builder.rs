//! What can be set about the transport, and the first call: what is wrong with the address, the
//! credentials or the settings is said here and not at the first message.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use punctual::clock::{Clock, SystemClock};
use punctual::wire::Wrapping;
use punctual::{Error, Result};

use crate::SqsTransport;
use crate::address::Address;
use crate::fault::Fault;
use crate::groups::Groups;
use crate::link::Link;
use crate::names::Names;
use crate::producer::Producer;
use crate::topology::Settings;

const PREFIX: &str = "punctual";
const HOLD_LENGTH: Duration = Duration::from_secs(60);
const HOLD_LENGTH_MIN: Duration = Duration::from_secs(2);
const HOLD_LENGTH_MAX: Duration = Duration::from_hours(12);
const TIMEOUT: Duration = Duration::from_secs(10);
const WAIT: Duration = Duration::from_secs(5);
const WAIT_MAX: Duration = Duration::from_secs(20);
const GROUPS_KEPT_FOR: Duration = Duration::from_secs(1);
const RETENTION_MIN: Duration = Duration::from_mins(1);
const RETENTION_MAX: Duration = Duration::from_hours(14 * 24);
const MESSAGE_MAX: usize = 256 * 1024;
const MESSAGE_MIN: usize = 32 * 1024;
/// What SQS takes since August 2025.
const MESSAGE_LIMIT: usize = 1024 * 1024;
/// Of a message this much is not for its body: headers, and what a dead letter says.
const HEADER_ROOM: usize = 16 * 1024;

/// What can be set about the transport.
#[must_use = "a builder does nothing until it connects"]
pub struct SqsBuilder {
    address: String,
    credentials: Option<(String, String)>,
    prefix: String,
    clock: Arc<dyn Clock>,
    declares: bool,
    retention: Option<Duration>,
    hold_length: Duration,
    timeout: Duration,
    wait: Duration,
    groups_kept_for: Duration,
    message_max: usize,
    wrapping: Option<Wrapping>,
}

impl SqsBuilder {
    pub(crate) fn new(address: String) -> Self {
        Self {
            address,
            credentials: None,
            prefix: PREFIX.to_owned(),
            clock: Arc::new(SystemClock),
            declares: true,
            retention: None,
            hold_length: HOLD_LENGTH,
            timeout: TIMEOUT,
            wait: WAIT,
            groups_kept_for: GROUPS_KEPT_FOR,
            message_max: MESSAGE_MAX,
            wrapping: None,
        }
    }

    /// An access key and its secret; without them and without any in the address, what the environment
    /// says: variables, the shared configuration file, or the machine's role.
    pub fn credentials(mut self, key: impl Into<String>, secret: impl Into<String>) -> Self {
        self.credentials = Some((key.into(), secret.into()));
        self
    }

    /// How the names of all queues begin; `punctual` unless said otherwise. A dash follows.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Whether missing queues are made; they are, unless said otherwise.
    pub fn declare(mut self, declares: bool) -> Self {
        self.declares = declares;
        self
    }

    /// How long queues keep messages, letters too. Unless said otherwise, 14 days for queues that are
    /// made, which is the longest, and whatever is set for those that are there.
    pub fn retention(mut self, length: Duration) -> Self {
        self.retention = Some(length);
        self
    }

    /// What a process that is gone had in hand goes to others after so long; 60 seconds unless said
    /// otherwise. A process that lives extends its holds three times as often.
    pub fn hold_length(mut self, length: Duration) -> Self {
        self.hold_length = length;
        self
    }

    /// How long SQS may take to answer; 10 seconds unless said otherwise.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How long one poll waits for messages; 5 seconds unless said otherwise, and 20 at most. Longer ones
    /// cost fewer calls; closing a consumer waits for the last.
    pub fn wait(mut self, length: Duration) -> Self {
        self.wait = length;
        self
    }

    /// How long a publisher believes what it knows of a topic's groups; a second unless said otherwise. The
    /// first subscription of a group takes so much longer, so it must be the same everywhere.
    pub fn groups_kept_for(mut self, length: Duration) -> Self {
        self.groups_kept_for = length;
        self
    }

    /// The largest message in bytes, headers included; 256 KiB unless said otherwise, which every queue
    /// takes, and 1 MiB at most, which only newer ones do.
    pub fn message_max(mut self, bytes: usize) -> Self {
        self.message_max = bytes;
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

    /// Asks SQS something, and refuses what cannot work.
    pub async fn connect(self) -> Result<SqsTransport> {
        self.check()?;
        let names = Names::new(self.prefix)?;
        let (address, wrapping) = Wrapping::at(&self.address, self.wrapping)?;
        let mut address = Address::parse(&address)?;
        if self.credentials.is_some() {
            address.credentials = self.credentials;
        }
        let link = Link::new(&address, self.timeout, self.wait).await;
        let asked = link.calls.list_queues().queue_name_prefix(names.all()).max_results(1);
        asked
            .send()
            .await
            .map_err(|error| Error::from(Fault::of(error, &link.place)).during("connect"))?;
        let message_max = self.message_max;
        let (declares, retention) = (self.declares, self.retention);
        let settings = Settings { names, declares, retention, message_max };
        let groups = Groups::new(self.groups_kept_for);
        let payload_max = message_max - HEADER_ROOM;
        Ok(SqsTransport {
            link,
            producer: Producer { settings, groups, payload_max, wrapping },
            clock: self.clock,
            hold_length: self.hold_length,
            wait: self.wait,
        })
    }

    fn check(&self) -> Result<()> {
        let refused = |what: &str, value: Duration, least: Duration, most: Duration| {
            Err(Error::invalid(format!(
                "a {what} of {value:?} is not possible; give {least:?} to {most:?}"
            )))
        };
        let Self { hold_length, wait, timeout, message_max, .. } = self;
        if !(HOLD_LENGTH_MIN..=HOLD_LENGTH_MAX).contains(hold_length) {
            return refused("hold_length", *hold_length, HOLD_LENGTH_MIN, HOLD_LENGTH_MAX);
        }
        let second = Duration::from_secs(1);
        if !(second..=WAIT_MAX).contains(wait) {
            return refused("wait", *wait, second, WAIT_MAX);
        }
        if let Some(retention) = self.retention
            && !(RETENTION_MIN..=RETENTION_MAX).contains(&retention)
        {
            return refused("retention", retention, RETENTION_MIN, RETENTION_MAX);
        }
        if timeout.is_zero() {
            return Err(Error::invalid("a timeout of zero lets no call succeed; give some time"));
        }
        if !(MESSAGE_MIN..=MESSAGE_LIMIT).contains(message_max) {
            return Err(Error::invalid(format!(
                "a message_max of {message_max} bytes is not possible; give {MESSAGE_MIN} to {MESSAGE_LIMIT}"
            )));
        }
        Ok(())
    }
}

impl fmt::Debug for SqsBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address may hold a secret.
        f.debug_struct("SqsBuilder").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_settings_are_refused_by_value() {
        let builder = || SqsBuilder::new("http://me:hush@h".to_owned());
        builder().check().unwrap();
        for (builder, value) in [
            (builder().hold_length(Duration::from_secs(1)), "hold_length of 1s"),
            (builder().wait(Duration::from_secs(21)), "wait of 21s"),
            (builder().retention(Duration::from_secs(59)), "retention of 59s"),
            (builder().timeout(Duration::ZERO), "zero"),
            (builder().message_max(MESSAGE_LIMIT + 1), "1048577"),
        ] {
            let error = builder.check().unwrap_err().to_string();
            assert!(error.contains(value), "{error}");
            assert!(!format!("{builder:?}").contains("hush"));
        }
    }
}
