//! Signature of request bodies, by which the receiver verifies the sender and the age.

use std::fmt::Write as _;

use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use punctual::{Error, Result};
use sha2::Sha256;

/// Default header of a signature.
pub(crate) const HEADER_DEFAULT: &str = "Punctual-Signature";

/// Returns the signature of a body at an instant: `t=SECONDS,v1=HEX`, where the digest is HMAC-SHA256 over the
/// seconds, a dot, and the body.
pub fn sign(secret: &[u8], at: Timestamp, body: &[u8]) -> Result<String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret)
        .map_err(|_| Error::invalid("the secret of the signature cannot be used as a key"))?;
    let seconds = at.as_second();
    mac.update(seconds.to_string().as_bytes());
    mac.update(b".");
    mac.update(body);
    let mut text = format!("t={seconds},v1=");
    for byte in mac.finalize().into_bytes() {
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    // The digest is that of `printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac key`.
    #[test]
    fn equals_the_digest_of_openssl() {
        let at = Timestamp::from_second(1_700_000_000).unwrap();
        assert_eq!(
            sign(b"key", at, b"{\"a\":1}").unwrap(),
            "t=1700000000,v1=a438e398bfafc57e4396bb7fc2304422f0f768e965d073ca313cb52e22e6ad03"
        );
    }
}
