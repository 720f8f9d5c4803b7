//! Logins by name and password: the check, its throttling, and the count and audit of its result.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::StatusCode;
use punctual::clock::add;

use super::throttle::Keys;
use super::{Auth, User};
use crate::app::App;
use crate::problem::{ApiResult, Problem};

/// Credentials of a login and their origin.
pub(crate) struct Login<'a> {
    pub(crate) name: &'a str,
    pub(crate) password: &'a str,
    /// The address of the caller; none for calls in process.
    pub(crate) from: Option<IpAddr>,
    /// The cookie that an earlier login left in this browser.
    pub(crate) browser: Option<String>,
}

/// Number of logins by result since the process started.
#[derive(Debug, Default)]
pub(crate) struct LoginCounts {
    accepted: AtomicU64,
    wrong: AtomicU64,
    throttled: AtomicU64,
    busy: AtomicU64,
    tokens_refused: AtomicU64,
}

impl LoginCounts {
    /// Returns the number of logins for each result.
    pub(crate) fn logins(&self) -> [(&'static str, u64); 4] {
        [
            ("accepted", &self.accepted),
            ("wrong", &self.wrong),
            ("throttled", &self.throttled),
            ("busy", &self.busy),
        ]
        .map(|(result, count)| (result, count.load(Ordering::Relaxed)))
    }

    /// Returns how often a token was refused.
    pub(crate) fn tokens_refused(&self) -> u64 {
        self.tokens_refused.load(Ordering::Relaxed)
    }

    pub(super) fn refuse_token(&self) {
        self.tokens_refused.fetch_add(1, Ordering::Relaxed);
    }
}

/// Checks a name and a password; counts the outcome, and writes a refusal to the audit trail.
pub(crate) async fn log_in(app: &App, login: Login<'_>) -> ApiResult<User> {
    let verified = app.auth().verify_login(&login).await;
    note_login(app, login.name, login.from, verified.as_ref().err()).await;
    verified
}

/// Counts a login, and writes a refusal to the audit trail.
pub(crate) async fn note_login(
    app: &App,
    name: &str,
    from: Option<IpAddr>,
    problem: Option<&Problem>,
) {
    let counts = &app.auth().counts;
    let (count, reason) = match problem.map(Problem::status) {
        None => (&counts.accepted, None),
        Some(StatusCode::UNAUTHORIZED) => (&counts.wrong, Some("wrong name or password")),
        Some(StatusCode::TOO_MANY_REQUESTS) => (&counts.throttled, Some("too many attempts")),
        // Failures of the server are not the caller's.
        Some(_) => (&counts.busy, None),
    };
    count.fetch_add(1, Ordering::Relaxed);
    if let Some(reason) = reason {
        app.audit().refused(name, from, reason).await;
    }
}

impl Auth {
    /// Checks a name and a password. An unknown name takes as long as a wrong password.
    async fn verify_login(&self, login: &Login<'_>) -> ApiResult<User> {
        let browser = self.known_browser(login).await?;
        let keys = match &browser {
            Some(hash) => Keys::of_browser(hash),
            None => Keys::of_name(login.name, login.from),
        };
        let now = self.clock.now();
        self.throttle.check(&keys, now)?;
        let slot = self.limiter.enter(login.from, browser.is_some())?;
        if browser.is_none()
            && let Some(delay) = self.throttle.delay(login.name)
        {
            self.clock.sleep_until(add(now, delay)).await;
        }
        let permit = slot.permit().await?;
        let user = self.users.find(login.name).await?;
        // Users of an identity provider have no password.
        let hash = user.as_ref().map(|user| user.hash.clone()).filter(|hash| !hash.is_empty());
        let attempt = self.throttle.begin(keys, self.clock.now())?;
        let verified = self.passwords.verify(permit, hash, login.password.to_owned()).await;
        let is_valid = match verified {
            Ok(is_valid) => is_valid,
            Err(error) => {
                attempt.was_not_checked();
                return Err(error.into());
            }
        };
        let user = user.filter(|user| is_valid && !user.disabled).ok_or_else(|| {
            Problem::new(StatusCode::UNAUTHORIZED, "the name or the password is wrong")
        })?;
        attempt.was_right();
        Ok(user)
    }

    /// Returns the hash of the browser cookie if this user has logged in with it before.
    async fn known_browser(&self, login: &Login<'_>) -> ApiResult<Option<String>> {
        let Some(secret) = &login.browser else { return Ok(None) };
        let Some(user) = self.users.find(login.name).await? else { return Ok(None) };
        Ok(self.browsers.known(secret, &user).await?)
    }
}
