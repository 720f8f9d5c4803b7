//! Asks the provider: no redirects, ten seconds, and an answer of bounded size. The provider is chosen by the
//! configuration, so the guard of what jobs may call is not asked.

use std::time::Duration;

use axum::http::StatusCode;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::outgoing::Outgoing;
use crate::problem::{Answer, Problem};

/// How long the provider may take to answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The most bytes of an answer.
const ANSWER_MAX: usize = 256 * 1024;
/// The most characters of an error of the provider that are shown.
const ERROR_MAX: usize = 100;
/// The most causes that are looked through.
const CAUSES_MAX: usize = 16;

/// Asks the provider.
pub(super) struct Fetcher {
    client: reqwest::Client,
    issuer: String,
}

/// What it answered.
pub(super) struct Answered(Vec<u8>);

impl Answered {
    pub(super) fn json<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_slice(&self.0)
    }
}

/// How a provider says no.
#[derive(Default, Deserialize)]
struct Refusal {
    #[serde(default)]
    error: String,
}

impl Fetcher {
    pub(super) fn new(issuer: &str, outgoing: &Outgoing) -> Answer<Self> {
        let client = outgoing.client(|builder| builder.timeout(TIMEOUT))?;
        Ok(Self { client, issuer: issuer.to_owned() })
    }

    pub(super) async fn get(&self, url: &str) -> Answer<Answered> {
        let request = self.client.get(url).header(ACCEPT, "application/json");
        let (status, answered) = self.send(request).await?;
        if status.is_success() {
            return Ok(answered);
        }
        Err(self.unusable(&format!("{url} answered {status}")))
    }

    /// Sends a form. What the provider does not accept of it is the browser's fault, not the provider's.
    pub(super) async fn post(
        &self,
        url: &str,
        form: String,
        authorization: Option<String>,
    ) -> Answer<Answered> {
        let mut request = self
            .client
            .post(url)
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(form);
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let (status, answered) = self.send(request).await?;
        if status.is_success() {
            return Ok(answered);
        }
        let said = answered.json::<Refusal>().unwrap_or_default().error;
        let said: String = said.chars().filter(|c| !c.is_control()).take(ERROR_MAX).collect();
        match said.as_str() {
            "invalid_client" | "unauthorized_client" => Err(self.unusable(&format!(
                "it does not know us ({said}); check auth.oidc_client_id and auth.oidc_client_secret"
            ))),
            _ if status.is_client_error() => {
                let why = if said.is_empty() { status.to_string() } else { said };
                Err(super::refused(&format!("it answered {why}")))
            }
            _ => Err(self.unusable(&format!("{url} answered {status}"))),
        }
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Answer<(StatusCode, Answered)> {
        let unreachable = |error: reqwest::Error| self.unusable(&cause(&error.without_url()));
        let mut response = request.send().await.map_err(unreachable)?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            if body.len() + chunk.len() > ANSWER_MAX {
                return Err(self.unusable(&format!("its answer has more than {ANSWER_MAX} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        Ok((response.status(), Answered(body)))
    }

    fn unusable(&self, why: &str) -> Problem {
        tracing::warn!(issuer = self.issuer, why, "the provider of sign-ins cannot be used");
        let sentence = format!(
            "the provider {} does not answer as it should: {why}; try again in a moment",
            self.issuer
        );
        Problem::new(StatusCode::BAD_GATEWAY, sentence)
    }
}

/// What an error comes down to; its own words only say that something failed.
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
