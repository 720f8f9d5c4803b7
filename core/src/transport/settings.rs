//! Common settings: the options that every transport over a broker has, under the same names and with the same checks.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, SystemClock};
use crate::error::{Error, Result};
use crate::wire::Wrapping;

const PREFIX: &str = "punctual";
const TIMEOUT: Duration = Duration::from_secs(10);

/// Options that every transport over a broker has. A builder keeps them in its field `common`, and
/// [`common_transport_options!`](crate::common_transport_options) gives it their methods.
#[derive(Clone)]
pub struct CommonSettings {
    /// Address as the application gave it. It may contain a password.
    pub address: String,
    /// Prefix of every name on the broker.
    pub prefix: String,
    /// Whether what is missing on the broker is created.
    pub declare: bool,
    /// Timeout of one call to the broker.
    pub timeout: Duration,
    /// Size limit of a body in bytes.
    pub payload_max: usize,
    /// Envelope that the application has set; the address may name one as well.
    pub envelope: Option<Wrapping>,
    /// Clock for waiting and timeouts.
    pub clock: Arc<dyn Clock>,
}

impl CommonSettings {
    /// Returns the defaults: prefix `punctual`, declaring, a timeout of 10 seconds, no payload limit.
    pub fn new(address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
            prefix: PREFIX.to_owned(),
            declare: true,
            timeout: TIMEOUT,
            payload_max: usize::MAX,
            envelope: None,
            clock: Arc::new(SystemClock),
        }
    }

    /// Fails for a timeout of zero, and for a payload limit of zero or above that of the broker.
    pub fn check(&self, payload_limit: usize) -> Result<()> {
        if self.timeout.is_zero() {
            return Err(Error::invalid(
                "a timeout of zero lets no call succeed; set a longer timeout",
            ));
        }
        check_payload_max(self.payload_max, 1, payload_limit)
    }

    /// Returns the address without the parameters that name an envelope, and the envelope in use.
    pub fn address_and_envelope(&self) -> Result<(String, Wrapping)> {
        Wrapping::at(&self.address, self.envelope.clone())
    }
}

/// Fails when a payload limit is out of range.
pub fn check_payload_max(bytes: usize, min: usize, max: usize) -> Result<()> {
    if (min..=max).contains(&bytes) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "a payload_max of {bytes} bytes is out of range; use {min} to {max}"
    )))
}

impl fmt::Debug for CommonSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address may contain a password.
        f.debug_struct("CommonSettings").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

/// Implements the methods of [`CommonSettings`](crate::transport::settings::CommonSettings) for a builder with
/// a field `common`. Each listed option has the text of its documentation, which names the default; `envelope`
/// and `clock` are the same for all builders and are not listed.
#[doc(hidden)]
#[macro_export]
macro_rules! common_transport_options {
    ($builder:ident { $($option:ident: $doc:literal,)+ }) => {
        impl $builder {
            $($crate::common_transport_options!(@method $option $doc);)+

            /// Sets the envelope of published messages; see [`Wrapping`](punctual::backend::wire::Wrapping).
            pub fn envelope(mut self, envelope: impl Into<$crate::backend::wire::Wrapping>) -> Self {
                self.common.envelope = Some(envelope.into());
                self
            }

            /// Sets the clock; default [`SystemClock`](punctual::SystemClock).
            pub fn clock(mut self, clock: ::std::sync::Arc<dyn $crate::Clock>) -> Self {
                self.common.clock = clock;
                self
            }
        }
    };
    (@method prefix $doc:literal) => {
        #[doc = $doc]
        pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
            self.common.prefix = prefix.into();
            self
        }
    };
    (@method declare $doc:literal) => {
        #[doc = $doc]
        pub fn declare(mut self, declare: bool) -> Self {
            self.common.declare = declare;
            self
        }
    };
    (@method timeout $doc:literal) => {
        #[doc = $doc]
        pub fn timeout(mut self, timeout: ::std::time::Duration) -> Self {
            self.common.timeout = timeout;
            self
        }
    };
    (@method payload_max $doc:literal) => {
        #[doc = $doc]
        pub fn payload_max(mut self, bytes: usize) -> Self {
            self.common.payload_max = bytes;
            self
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_options_are_refused_by_value() {
        let settings = CommonSettings::new("broker://u:secret@h");
        settings.check(usize::MAX).unwrap();
        let none = CommonSettings { timeout: Duration::ZERO, ..settings.clone() };
        assert!(none.check(usize::MAX).unwrap_err().to_string().contains("zero"));
        for bytes in [0, 11] {
            let wrong = CommonSettings { payload_max: bytes, ..settings.clone() };
            let error = wrong.check(10).unwrap_err().to_string();
            assert!(error.contains(&format!("{bytes} bytes")), "{error}");
        }
        assert!(!format!("{settings:?}").contains("secret"));
    }
}
