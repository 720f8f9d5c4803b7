//! HTTP client of the identity provider: no redirects, a timeout, and responses of bounded size. The provider is
//! chosen by the configuration, so the guard of job targets does not apply.

use std::time::Duration;

use axum::http::StatusCode;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::outgoing::OutgoingCalls;
use crate::problem::{ApiResult, Problem};

/// Timeout of a request to the provider.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Largest size of a response in bytes.
const RESPONSE_BYTES_MAX: usize = 256 * 1024;
/// Largest number of characters of a provider error that are shown.
const ERROR_MAX: usize = 100;
/// Largest number of causes of an error that are followed.
const CAUSES_MAX: usize = 16;

/// HTTP client of the provider.
pub(super) struct Fetcher {
    client: reqwest::Client,
    issuer: String,
}

/// Body of a response.
pub(super) struct ProviderResponse(Vec<u8>);

impl ProviderResponse {
    pub(super) fn json<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_slice(&self.0)
    }
}

/// Error response of a provider.
#[derive(Default, Deserialize)]
struct Refusal {
    #[serde(default)]
    error: String,
}

impl Fetcher {
    pub(super) fn new(issuer: &str, outgoing: &OutgoingCalls) -> ApiResult<Self> {
        let client = outgoing.client(|builder| builder.timeout(TIMEOUT))?;
        Ok(Self { client, issuer: issuer.to_owned() })
    }

    pub(super) async fn get(&self, url: &str) -> ApiResult<ProviderResponse> {
        let request = self.client.get(url).header(ACCEPT, "application/json");
        let (status, response) = self.send(request).await?;
        if status.is_success() {
            return Ok(response);
        }
        Err(self.unusable(&format!("{url} returned {status}")))
    }

    /// Sends a form. A client error means that the sign-in is invalid, not that the provider fails.
    pub(super) async fn post(
        &self,
        url: &str,
        form: String,
        authorization: Option<String>,
    ) -> ApiResult<ProviderResponse> {
        let mut request = self
            .client
            .post(url)
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(form);
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let (status, response) = self.send(request).await?;
        if status.is_success() {
            return Ok(response);
        }
        let error = response.json::<Refusal>().unwrap_or_default().error;
        let error: String = error.chars().filter(|c| !c.is_control()).take(ERROR_MAX).collect();
        match error.as_str() {
            "invalid_client" | "unauthorized_client" => Err(self.unusable(&format!(
                "it refused the client credentials ({error}); check auth.oidc_client_id and auth.oidc_client_secret"
            ))),
            _ if status.is_client_error() => {
                let why = if error.is_empty() { status.to_string() } else { error };
                Err(super::refused(&format!("the provider returned {why}")))
            }
            _ => Err(self.unusable(&format!("{url} returned {status}"))),
        }
    }

    async fn send(
        &self,
        request: reqwest::RequestBuilder,
    ) -> ApiResult<(StatusCode, ProviderResponse)> {
        let unreachable = |error: reqwest::Error| self.unusable(&cause(&error.without_url()));
        let mut response = request.send().await.map_err(unreachable)?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            if body.len() + chunk.len() > RESPONSE_BYTES_MAX {
                return Err(self
                    .unusable(&format!("its response has more than {RESPONSE_BYTES_MAX} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        Ok((response.status(), ProviderResponse(body)))
    }

    fn unusable(&self, why: &str) -> Problem {
        tracing::warn!(issuer = self.issuer, why, "the identity provider cannot be used");
        let sentence = format!(
            "the provider {} is unreachable or returned an invalid response: {why}; try again later",
            self.issuer
        );
        Problem::new(StatusCode::BAD_GATEWAY, sentence)
    }
}

/// Returns the deepest cause of an error; its own text only says that the request failed.
fn cause(error: &reqwest::Error) -> String {
    let mut deepest: &dyn std::error::Error = error;
    for _ in 0..CAUSES_MAX {
        match deepest.source() {
            Some(source) => deepest = source,
            None => break,
        }
    }
    deepest.to_string()
}
