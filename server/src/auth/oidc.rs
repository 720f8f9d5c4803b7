//! Sign-in by `OpenID` Connect: the authorization code flow with PKCE, a state and a nonce.
//!
//! A browser is sent to the provider ([`Provider::address`]) and comes back with a code, which is exchanged
//! for a token that says who it is ([`Provider::person`]). What follows is a session like any other. Nothing
//! is remembered in between: see [`Attempt`].

mod attempt;
mod claims;
mod fetch;
mod keys;
mod settings;
mod welcome;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use punctual::Clock;
use punctual::clock::between;
use serde::Deserialize;
use url::Url;
use url::form_urlencoded::{Serializer, byte_serialize};

pub(crate) use attempt::Attempt;
pub(crate) use claims::Person;
pub use settings::Oidc;

use crate::config::is_safe;
use crate::problem::{Answer, Problem};
use claims::Expected;
use fetch::Fetcher;
use keys::{Jwk, Opened};

/// How long is believed what a provider says of itself.
const KNOWN_FOR: Duration = Duration::from_secs(60 * 60);
/// How long a provider that did not answer is left alone, so that nobody makes us ask all the time.
const LEFT_ALONE_FOR: Duration = Duration::from_secs(5);
/// Where a provider says what it can do, below its issuer.
const DISCOVERY: &str = "/.well-known/openid-configuration";

/// The provider that knows people.
pub(crate) struct Provider {
    settings: Oidc,
    clock: Arc<dyn Clock>,
    fetcher: OnceLock<Fetcher>,
    known: Mutex<Known>,
}

/// What is known of it at present.
#[derive(Clone, Default)]
struct Known {
    metadata: Option<(Arc<Metadata>, Timestamp)>,
    keys: Option<(Arc<Vec<Jwk>>, Timestamp)>,
    failed: Option<(Problem, Timestamp)>,
}

/// What a provider says of itself.
#[derive(Debug, Deserialize)]
struct Metadata {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Vec<String>,
}

/// What the provider answers to a code.
#[derive(Deserialize)]
struct Tokens {
    id_token: String,
}

impl Provider {
    pub(super) fn new(settings: Oidc, clock: Arc<dyn Clock>) -> Self {
        Self { settings, clock, fetcher: OnceLock::new(), known: Mutex::default() }
    }

    pub(crate) fn settings(&self) -> &Oidc {
        &self.settings
    }

    /// Where a browser is sent to say who it is.
    pub(crate) async fn address(&self, attempt: &Attempt) -> Answer<String> {
        let metadata = self.metadata().await?;
        let mut url = Url::parse(&metadata.authorization_endpoint)
            .map_err(|_| self.odd("its authorization_endpoint is no URL"))?;
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.settings.client_id)
            .append_pair("redirect_uri", &self.settings.callback())
            .append_pair("scope", &self.settings.scope())
            .append_pair("state", &attempt.state())
            .append_pair("nonce", &attempt.nonce())
            .append_pair("code_challenge", &attempt.challenge())
            .append_pair("code_challenge_method", "S256");
        Ok(url.into())
    }

    /// Who it is that a browser came back with this code for.
    pub(crate) async fn person(&self, code: &str, attempt: &Attempt) -> Answer<Person> {
        let metadata = self.metadata().await?;
        let token = self.exchange(&metadata, code, attempt).await?;
        let mut opened = keys::open(&token, &self.keys(&metadata, false).await?)?;
        // The provider may have changed its keys since we asked; once more is enough to know.
        if matches!(opened, Opened::UnknownKey) {
            opened = keys::open(&token, &self.keys(&metadata, true).await?)?;
        }
        let Opened::Signed(said) = opened else {
            return Err(refused("it is signed with a key that the provider does not publish"));
        };
        let expected = Expected {
            issuer: &metadata.issuer,
            client_id: &self.settings.client_id,
            nonce: &attempt.nonce(),
            now: self.clock.now(),
        };
        claims::check(&said, &expected)?;
        claims::person(&said, &self.settings)
    }

    async fn exchange(&self, of: &Metadata, code: &str, attempt: &Attempt) -> Answer<String> {
        let (form, authorization) = self.form(of, code, attempt);
        let answered = self.fetcher()?.post(&of.token_endpoint, form, authorization).await?;
        let tokens: Tokens = answered.json().map_err(|_| self.odd("it gave no id_token"))?;
        Ok(tokens.id_token)
    }

    /// What a code is exchanged with, and the header that says who we are, where the provider takes one.
    fn form(&self, of: &Metadata, code: &str, attempt: &Attempt) -> (String, Option<String>) {
        let settings = &self.settings;
        let mut form = Serializer::new(String::new());
        form.append_pair("grant_type", "authorization_code")
            .append_pair("code", code)
            .append_pair("redirect_uri", &settings.callback())
            .append_pair("code_verifier", &attempt.verifier());
        let methods = &of.token_endpoint_auth_methods_supported;
        let takes_header =
            methods.is_empty() || methods.iter().any(|method| method == "client_secret_basic");
        let mut authorization = None;
        match &settings.client_secret {
            Some(secret) if takes_header => {
                let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
                let pair = format!("{}:{}", encoded(&settings.client_id), encoded(secret));
                authorization = Some(format!("Basic {}", STANDARD.encode(pair)));
            }
            Some(secret) => {
                form.append_pair("client_id", &settings.client_id)
                    .append_pair("client_secret", secret);
            }
            None => {
                form.append_pair("client_id", &settings.client_id);
            }
        }
        (form.finish(), authorization)
    }

    async fn metadata(&self) -> Answer<Arc<Metadata>> {
        let known = self.snapshot();
        let now = self.clock.now();
        if let Some((metadata, at)) = known.metadata
            && between(at, now) < KNOWN_FOR
        {
            return Ok(metadata);
        }
        if let Some((problem, at)) = known.failed
            && between(at, now) < LEFT_ALONE_FOR
        {
            return Err(problem);
        }
        match self.discover().await {
            Ok(metadata) => {
                let metadata = Arc::new(metadata);
                let known = Some((metadata.clone(), now));
                self.learn(|all| *all = Known { metadata: known, ..Known::default() });
                Ok(metadata)
            }
            Err(problem) => {
                self.learn(|all| all.failed = Some((problem.clone(), now)));
                Err(problem)
            }
        }
    }

    async fn discover(&self) -> Answer<Metadata> {
        let issuer = self.settings.issuer.trim_end_matches('/');
        let answered = self.fetcher()?.get(&format!("{issuer}{DISCOVERY}")).await?;
        let metadata: Metadata = answered
            .json()
            .map_err(|error| self.odd(&format!("what it says of itself: {error}")))?;
        if metadata.issuer.trim_end_matches('/') != issuer {
            return Err(self.odd(&format!("it calls itself {:?}", metadata.issuer)));
        }
        for url in [&metadata.authorization_endpoint, &metadata.token_endpoint, &metadata.jwks_uri]
        {
            if !is_safe(url) {
                return Err(self.odd(&format!("{url:?} is no URL with https")));
            }
        }
        Ok(metadata)
    }

    async fn keys(&self, of: &Metadata, again: bool) -> Answer<Arc<Vec<Jwk>>> {
        let now = self.clock.now();
        if let Some((keys, at)) = self.snapshot().keys
            && !again
            && between(at, now) < KNOWN_FOR
        {
            return Ok(keys);
        }
        let answered = self.fetcher()?.get(&of.jwks_uri).await?;
        let document = answered.json().map_err(|error| self.odd(&format!("its keys: {error}")))?;
        let keys = Arc::new(keys::read(document));
        self.learn(|all| all.keys = Some((keys.clone(), now)));
        Ok(keys)
    }

    fn fetcher(&self) -> Answer<&Fetcher> {
        if let Some(fetcher) = self.fetcher.get() {
            return Ok(fetcher);
        }
        let made = Fetcher::new(&self.settings.issuer, &self.settings.outgoing)?;
        Ok(self.fetcher.get_or_init(|| made))
    }

    fn snapshot(&self) -> Known {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn learn(&self, change: impl FnOnce(&mut Known)) {
        change(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The provider answers what makes no sense.
    fn odd(&self, what: &str) -> Problem {
        let issuer = &self.settings.issuer;
        let sentence = format!(
            "the provider {issuer} cannot be used: {what}; check auth.oidc_issuer and the provider"
        );
        Problem::new(StatusCode::BAD_GATEWAY, sentence)
    }
}

/// The token does not say who somebody is.
fn refused(why: &str) -> Problem {
    let sentence = format!("the provider's word is not accepted: {why}; sign in again");
    Problem::new(StatusCode::UNAUTHORIZED, sentence)
}
