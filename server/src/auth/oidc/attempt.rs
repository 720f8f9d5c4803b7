//! Sign-in attempt: the state between the redirect to the provider and the return.
//!
//! It is a random text in a cookie of the browser with the instant it expires. The state, the nonce and the
//! verifier are hashes of that text, so only the same browser can return, and the server stores nothing that a
//! flood of attempts could fill. A forged cookie only starts an attempt of its own.

use std::time::Duration;

use axum::http::HeaderMap;
use jiff::Timestamp;
use punctual::clock::add;
use subtle::ConstantTimeEq;

use crate::auth::cookie_named;
use crate::secret::{hashed, random};

/// How long a sign-in at the provider may take.
pub(crate) const ATTEMPT_TTL: Duration = Duration::from_secs(10 * 60);
/// The name of the cookie.
const COOKIE_NAME: &str = "punctual_sign_in";
/// Largest number of characters of the cookie that are read.
const COOKIE_MAX: usize = 100;

/// An attempt to sign in.
#[derive(Clone)]
pub(crate) struct Attempt(String);

impl Attempt {
    pub(crate) fn new(now: Timestamp) -> Self {
        Self(format!("{}.{}", random(), add(now, ATTEMPT_TTL).as_second()))
    }

    /// Returns the attempt of a returning browser, unless it has expired.
    pub(crate) fn of(headers: &HeaderMap, now: Timestamp) -> Option<Self> {
        let text = cookie_named(headers, COOKIE_NAME).filter(|text| text.len() <= COOKIE_MAX)?;
        let (_, ends_at) = text.split_once('.')?;
        let ends_at = Timestamp::from_second(ends_at.parse().ok()?).ok()?;
        // A later end is forged.
        (now < ends_at && ends_at <= add(now, ATTEMPT_TTL)).then_some(Self(text))
    }

    /// Returns whether `state` is the one of this attempt.
    pub(crate) fn has_state(&self, state: &str) -> bool {
        self.state().as_bytes().ct_eq(state.as_bytes()).into()
    }

    pub(super) fn state(&self) -> String {
        self.derived("state")
    }

    pub(super) fn nonce(&self) -> String {
        self.derived("nonce")
    }

    pub(super) fn verifier(&self) -> String {
        self.derived("verifier")
    }

    pub(super) fn challenge(&self) -> String {
        hashed(&self.verifier())
    }

    /// Returns the cookie. The return is a cross-site navigation, so `SameSite` is lax, not strict as for the
    /// session.
    pub(crate) fn cookie(&self, path: &str, secure: bool) -> String {
        cookie(&self.0, ATTEMPT_TTL.as_secs(), path, secure)
    }

    /// Returns the cookie that deletes it.
    pub(crate) fn no_cookie(path: &str, secure: bool) -> String {
        cookie("", 0, path, secure)
    }

    fn derived(&self, purpose: &str) -> String {
        hashed(&format!("{purpose} {}", self.0))
    }
}

fn cookie(text: &str, seconds: u64, path: &str, secure: bool) -> String {
    let secure = if secure { "; Secure" } else { "" };
    format!("{COOKIE_NAME}={text}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::header::COOKIE;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn shown(text: &str) -> HeaderMap {
        let pair = text.split(';').next().unwrap().to_owned();
        HeaderMap::from_iter([(COOKIE, pair.parse().unwrap())])
    }

    // spec: C-6
    #[test]
    fn only_the_same_browser_returns_and_only_in_time() {
        let attempt = Attempt::new(at(1_000));
        let headers = shown(&attempt.cookie("/", false));
        let back = Attempt::of(&headers, at(1_599)).unwrap();
        assert!(back.has_state(&attempt.state()) && !back.has_state(&attempt.nonce()));
        assert_eq!(back.challenge(), hashed(&attempt.verifier()));
        assert!(Attempt::of(&headers, at(1_600)).is_none());
        assert!(Attempt::of(&HeaderMap::new(), at(1_000)).is_none());
        let another = Attempt::new(at(1_000));
        assert!(!another.has_state(&attempt.state()));
        let endless = shown(&Attempt::new(at(9_000)).cookie("/", true));
        assert!(Attempt::of(&endless, at(1_000)).is_none());
    }
}
