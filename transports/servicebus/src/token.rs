//! Tokens that authenticate: signed with a policy's key for one entity, valid for a while.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use punctual::jiff::Timestamp;
use ring::hmac;

use crate::address::Credential;

/// Returns a token for everything under a resource, valid until an instant.
pub(crate) fn signature(credential: &Credential, resource: &str, until: Timestamp) -> String {
    let (policy, key) = match credential {
        Credential::Signature(made) => return made.clone(),
        Credential::Key { policy, key } => (policy, key),
    };
    let (resource, until) = (escaped(resource), until.as_second());
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
    let signed = hmac::sign(&key, format!("{resource}\n{until}").as_bytes());
    let signed = escaped(&BASE64_STANDARD.encode(signed));
    format!("SharedAccessSignature sr={resource}&sig={signed}&se={until}&skn={}", escaped(policy))
}

/// Percent-encodes text for a URL.
fn escaped(text: &str) -> String {
    use std::fmt::Write as _;
    let mut escaped = String::with_capacity(text.len() + 16);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            escaped.push(char::from(byte));
        } else {
            // Writing to a `String` cannot fail.
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected value computed with OpenSSL: `printf 'sb%%3A%%2F%%2Fh%%2Fq\n1700000000' | openssl dgst -sha256
    /// -hmac key`.
    #[test]
    fn the_signature_is_that_of_another_implementation() {
        let credential = Credential::Key { policy: "root".to_owned(), key: "key".to_owned() };
        let until = Timestamp::from_second(1_700_000_000).unwrap();
        let made = signature(&credential, "sb://h/q", until);
        assert_eq!(
            made,
            "SharedAccessSignature sr=sb%3A%2F%2Fh%2Fq&sig=B1kuxQJC1O0QzFpBXOsSfzk3bWDaLMEGV3mnq%2Fnhg%2FM%3D&se=1700000000&skn=root"
        );
    }

    #[test]
    fn a_given_signature_is_used_unchanged() {
        let credential = Credential::Signature("SharedAccessSignature sr=x".to_owned());
        let made = signature(&credential, "sb://h/q", Timestamp::UNIX_EPOCH);
        assert_eq!(made, "SharedAccessSignature sr=x");
    }
}
