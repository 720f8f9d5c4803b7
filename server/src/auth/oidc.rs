//! Sign-in by `OpenID` Connect: the authorization code flow with PKCE, a state and a nonce.
//!
//! A browser is redirected to the provider ([`Provider::address`]) and returns with a code, which is exchanged
//! for an ID token that identifies the user ([`Provider::person`]). The session that follows is like any other.
//! The server stores nothing in between: see [`Attempt`].

mod attempt;
mod claims;
mod fetch;
mod keys;
mod settings;
mod user_mapping;

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
use crate::problem::{ApiResult, Problem};
use claims::Expected;
use fetch::Fetcher;
use keys::{Jwk, Verification};

/// How long metadata and keys of the provider are cached.
const METADATA_TTL: Duration = Duration::from_secs(60 * 60);
/// How long a failed discovery is cached, so that requests cannot trigger it all the time.
const FAILURE_TTL: Duration = Duration::from_secs(5);
/// Path of the discovery document below the issuer.
const DISCOVERY: &str = "/.well-known/openid-configuration";

/// The identity provider.
pub(crate) struct Provider {
    settings: Oidc,
    clock: Arc<dyn Clock>,
    fetcher: OnceLock<Fetcher>,
    cache: Mutex<ProviderCache>,
}

/// Cached metadata, keys and the last failure, each with its instant.
#[derive(Clone, Default)]
struct ProviderCache {
    metadata: Option<(Arc<Metadata>, Timestamp)>,
    keys: Option<(Arc<Vec<Jwk>>, Timestamp)>,
    failed: Option<(Problem, Timestamp)>,
}

/// Discovery document of a provider.
#[derive(Debug, Deserialize)]
struct Metadata {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Vec<String>,
}

/// Response of the token endpoint.
#[derive(Deserialize)]
struct Tokens {
    id_token: String,
}

impl Provider {
    pub(super) fn new(settings: Oidc, clock: Arc<dyn Clock>) -> Self {
        Self { settings, clock, fetcher: OnceLock::new(), cache: Mutex::default() }
    }

    pub(crate) fn settings(&self) -> &Oidc {
        &self.settings
    }

    /// Returns the address of the provider that a browser is redirected to.
    pub(crate) async fn address(&self, attempt: &Attempt) -> ApiResult<String> {
        let metadata = self.metadata().await?;
        let mut url = Url::parse(&metadata.authorization_endpoint)
            .map_err(|_| self.unusable("its authorization_endpoint is not a URL"))?;
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

    /// Exchanges the code of a returning browser for the person who signed in.
    pub(crate) async fn person(&self, code: &str, attempt: &Attempt) -> ApiResult<Person> {
        let metadata = self.metadata().await?;
        let token = self.exchange(&metadata, code, attempt).await?;
        let mut verified = keys::verify(&token, &self.keys(&metadata, false).await?)?;
        // The provider may have rotated its keys since they were cached.
        if matches!(verified, Verification::UnknownKey) {
            verified = keys::verify(&token, &self.keys(&metadata, true).await?)?;
        }
        let Verification::Signed(claims) = verified else {
            return Err(refused("it is signed with a key that the provider does not publish"));
        };
        let expected = Expected {
            issuer: &metadata.issuer,
            client_id: &self.settings.client_id,
            nonce: &attempt.nonce(),
            now: self.clock.now(),
        };
        claims::check(&claims, &expected)?;
        claims::person(&claims, &self.settings)
    }

    async fn exchange(&self, of: &Metadata, code: &str, attempt: &Attempt) -> ApiResult<String> {
        let (form, authorization) = self.form(of, code, attempt);
        let response = self.fetcher()?.post(&of.token_endpoint, form, authorization).await?;
        let tokens: Tokens =
            response.json().map_err(|_| self.unusable("its response has no id_token"))?;
        Ok(tokens.id_token)
    }

    /// Returns the form of the token request, and its `Authorization` header if the provider supports one.
    fn form(&self, of: &Metadata, code: &str, attempt: &Attempt) -> (String, Option<String>) {
        let settings = &self.settings;
        let mut form = Serializer::new(String::new());
        form.append_pair("grant_type", "authorization_code")
            .append_pair("code", code)
            .append_pair("redirect_uri", &settings.callback())
            .append_pair("code_verifier", &attempt.verifier());
        let methods = &of.token_endpoint_auth_methods_supported;
        let supports_basic =
            methods.is_empty() || methods.iter().any(|method| method == "client_secret_basic");
        let mut authorization = None;
        match &settings.client_secret {
            Some(secret) if supports_basic => {
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

    async fn metadata(&self) -> ApiResult<Arc<Metadata>> {
        let known = self.snapshot();
        let now = self.clock.now();
        if let Some((metadata, at)) = known.metadata
            && between(at, now) < METADATA_TTL
        {
            return Ok(metadata);
        }
        if let Some((problem, at)) = known.failed
            && between(at, now) < FAILURE_TTL
        {
            return Err(problem);
        }
        match self.discover().await {
            Ok(metadata) => {
                let metadata = Arc::new(metadata);
                let known = Some((metadata.clone(), now));
                self.update(|all| {
                    *all = ProviderCache { metadata: known, ..ProviderCache::default() }
                });
                Ok(metadata)
            }
            Err(problem) => {
                self.update(|all| all.failed = Some((problem.clone(), now)));
                Err(problem)
            }
        }
    }

    async fn discover(&self) -> ApiResult<Metadata> {
        let issuer = self.settings.issuer.trim_end_matches('/');
        let response = self.fetcher()?.get(&format!("{issuer}{DISCOVERY}")).await?;
        let metadata: Metadata = response.json().map_err(|error| {
            self.unusable(&format!("its discovery document cannot be read: {error}"))
        })?;
        if metadata.issuer.trim_end_matches('/') != issuer {
            return Err(self.unusable(&format!(
                "its discovery document names the issuer {:?}",
                metadata.issuer
            )));
        }
        for url in [&metadata.authorization_endpoint, &metadata.token_endpoint, &metadata.jwks_uri]
        {
            if !is_safe(url) {
                return Err(self.unusable(&format!("{url:?} is not an https URL")));
            }
        }
        Ok(metadata)
    }

    async fn keys(&self, of: &Metadata, force: bool) -> ApiResult<Arc<Vec<Jwk>>> {
        let now = self.clock.now();
        if let Some((keys, at)) = self.snapshot().keys
            && !force
            && between(at, now) < METADATA_TTL
        {
            return Ok(keys);
        }
        let response = self.fetcher()?.get(&of.jwks_uri).await?;
        let document = response
            .json()
            .map_err(|error| self.unusable(&format!("its keys cannot be read: {error}")))?;
        let keys = Arc::new(keys::read(document));
        self.update(|all| all.keys = Some((keys.clone(), now)));
        Ok(keys)
    }

    fn fetcher(&self) -> ApiResult<&Fetcher> {
        if let Some(fetcher) = self.fetcher.get() {
            return Ok(fetcher);
        }
        let fetcher = Fetcher::new(&self.settings.issuer, &self.settings.outgoing)?;
        Ok(self.fetcher.get_or_init(|| fetcher))
    }

    fn snapshot(&self) -> ProviderCache {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn update(&self, change: impl FnOnce(&mut ProviderCache)) {
        change(&mut self.cache.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Returns the problem of a provider with an invalid response.
    fn unusable(&self, what: &str) -> Problem {
        let issuer = &self.settings.issuer;
        let sentence = format!(
            "the provider {issuer} cannot be used: {what}; check auth.oidc_issuer and the provider"
        );
        Problem::new(StatusCode::BAD_GATEWAY, sentence)
    }
}

/// Returns the problem of an ID token that is not accepted.
fn refused(why: &str) -> Problem {
    let sentence = format!("the sign-in is not accepted: {why}; sign in again");
    Problem::new(StatusCode::UNAUTHORIZED, sentence)
}
