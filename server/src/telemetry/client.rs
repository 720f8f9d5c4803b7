//! HTTP client of telemetry: the same client as all outgoing calls. The exporter threads have no runtime of their
//! own, so the calls run on that of the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use opentelemetry_http::{HttpClient, HttpError, Request, Response};
use punctual::{Error, Result};
use tokio::runtime::Handle;

use super::TIMEOUT;
use crate::outgoing::OutgoingCalls;

/// Largest number of bytes of a response that are read.
const RESPONSE_BYTES_MAX: usize = 64 * 1024;

/// HTTP client of the collector.
#[derive(Clone, Debug)]
pub(super) struct Client {
    http: reqwest::Client,
    runtime: Handle,
    address: Arc<str>,
    /// Whether the last call failed; logged once, not with every call.
    failing: Arc<AtomicBool>,
}

impl Client {
    pub(super) fn new(address: &str, outgoing: &OutgoingCalls) -> Result<Self> {
        let http = outgoing.client(|builder| builder.timeout(TIMEOUT))?;
        let runtime = Handle::try_current()
            .map_err(|error| Error::internal("telemetry needs a runtime").caused_by(error))?;
        Ok(Self { http, runtime, address: address.into(), failing: Arc::default() })
    }

    fn log_change(&self, failure: Option<String>) {
        let address = &*self.address;
        let was_failing = self.failing.swap(failure.is_some(), Ordering::Relaxed);
        match failure {
            Some(failure) if !was_failing => {
                tracing::warn!(address, failure, "telemetry cannot be exported to the collector");
            }
            None if was_failing => {
                tracing::info!(address, "telemetry is exported to the collector again");
            }
            _ => {}
        }
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (parts, body) = request.into_parts();
        let request = self.http.post(parts.uri.to_string()).headers(parts.headers).body(body);
        let result = match self.runtime.spawn(exchange(request)).await {
            Ok(result) => result,
            Err(error) => Err(HttpError::from(error)),
        };
        self.log_change(match &result {
            Ok(response) if response.status().is_success() => None,
            Ok(response) => Some(format!("it returned {}", response.status())),
            Err(error) => Some(error.to_string()),
        });
        result
    }
}

async fn exchange(request: reqwest::RequestBuilder) -> Result<Response<Bytes>, HttpError> {
    let mut response = request.send().await?;
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > RESPONSE_BYTES_MAX {
            break;
        }
        body.extend_from_slice(&chunk);
    }
    let mut complete = Response::new(body.freeze());
    *complete.status_mut() = response.status();
    *complete.headers_mut() = std::mem::take(response.headers_mut());
    Ok(complete)
}
