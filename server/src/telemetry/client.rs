//! How telemetry is sent: by the same client as everything else. The threads that collect it have no runtime
//! of their own, so the calls are made on ours.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use opentelemetry_http::{HttpClient, HttpError, Request, Response};
use punctual::{Error, Result};
use tokio::runtime::Handle;

use super::TIMEOUT;
use crate::outgoing::Outgoing;

/// The most bytes of an answer that are read; it says little.
const ANSWER_MAX: usize = 64 * 1024;

/// Sends to the collector.
#[derive(Clone, Debug)]
pub(super) struct Client {
    http: reqwest::Client,
    runtime: Handle,
    address: Arc<str>,
    /// Whether the last call failed; said once, not with every call.
    failing: Arc<AtomicBool>,
}

impl Client {
    pub(super) fn new(address: &str, outgoing: &Outgoing) -> Result<Self> {
        let http = outgoing.client(|builder| builder.timeout(TIMEOUT))?;
        let runtime = Handle::try_current()
            .map_err(|error| Error::internal("telemetry needs a runtime").caused_by(error))?;
        Ok(Self { http, runtime, address: address.into(), failing: Arc::default() })
    }

    fn note(&self, failure: Option<String>) {
        let address = &*self.address;
        let was = self.failing.swap(failure.is_some(), Ordering::Relaxed);
        match failure {
            Some(failure) if !was => {
                tracing::warn!(address, failure, "the collector of telemetry takes nothing");
            }
            None if was => tracing::info!(address, "the collector of telemetry is back"),
            _ => {}
        }
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (parts, body) = request.into_parts();
        let request = self.http.post(parts.uri.to_string()).headers(parts.headers).body(body);
        let answered = match self.runtime.spawn(exchange(request)).await {
            Ok(answered) => answered,
            Err(broken) => Err(HttpError::from(broken)),
        };
        self.note(match &answered {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(format!("it answered {}", answer.status())),
            Err(error) => Some(error.to_string()),
        });
        answered
    }
}

async fn exchange(request: reqwest::RequestBuilder) -> Result<Response<Bytes>, HttpError> {
    let mut response = request.send().await?;
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > ANSWER_MAX {
            break;
        }
        body.extend_from_slice(&chunk);
    }
    let mut answered = Response::new(body.freeze());
    *answered.status_mut() = response.status();
    *answered.headers_mut() = std::mem::take(response.headers_mut());
    Ok(answered)
}
