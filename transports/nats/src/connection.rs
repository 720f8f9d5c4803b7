//! Connection to the broker: whether it is up, and bounded ways to publish, to request and to call JetStream's API.
//! No call takes longer than `timeout`.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::response::Response;
use async_nats::jetstream::{Context, ErrorCode};
use async_nats::{Client, Subject};
use bytes::Bytes;
use futures_util::FutureExt as _;
use punctual::clock::{add, within};
use punctual::{Clock, Error, Result};
use tokio::sync::watch;

use crate::error;

/// A connection.
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) jetstream: Context,
    pub(crate) clock: Arc<dyn Clock>,
    /// Hosts and ports, for texts.
    pub(crate) servers: String,
    /// Prefix of the subjects of JetStream's API.
    pub(crate) api: String,
    pub(crate) timeout: Duration,
    /// Whether the connection is up.
    pub(crate) connected: watch::Receiver<bool>,
}

/// Response of JetStream's API.
pub(crate) enum ApiResponse<T> {
    Found(T),
    /// Neither a stream nor a consumer of this name exists.
    NotFound,
}

impl Connection {
    /// Returns a watch on whether the connection is up.
    pub(crate) fn connected(&self) -> watch::Receiver<bool> {
        self.connected.clone()
    }

    /// Publishes without waiting for a response. While the connection is down the client buffers what it can and
    /// sends it later.
    pub(crate) async fn publish(&self, subject: Subject, payload: Bytes) -> Result<()> {
        let mut publish = pin!(self.client.publish(subject, payload));
        // The client nearly always accepts at once; then no timer is needed.
        let sent = if let Some(sent) = publish.as_mut().now_or_never() {
            Some(sent)
        } else {
            let until = add(self.clock.now(), self.timeout);
            within(&*self.clock, until, publish).await
        };
        match sent {
            Some(sent) => sent.map_err(|error| {
                Error::unavailable(format!(
                    "NATS at {} did not accept the message: {error}",
                    self.servers
                ))
            }),
            None => Err(error::timed_out(&self.servers)),
        }
    }

    /// Publishes and waits until the broker confirms.
    pub(crate) async fn request(&self, subject: Subject, payload: Bytes) -> Result<()> {
        let response = self.while_connected(self.client.request(subject, payload)).await?;
        response.map(drop).map_err(|error| {
            Error::unavailable(format!(
                "NATS at {} did not confirm the message: {error}",
                self.servers
            ))
            .caused_by(error)
        })
    }

    /// Waits for work while the connection is up, at most for the timeout.
    pub(crate) async fn while_connected<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        let mut connected = self.connected();
        let until = add(self.clock.now(), self.timeout);
        tokio::select! {
            biased;
            _ = connected.wait_for(|connected| !connected) => Err(error::connection_lost(&self.servers)),
            done = work => Ok(done),
            () = self.clock.sleep_until(until) => Err(error::timed_out(&self.servers)),
        }
    }

    /// Calls JetStream's API; `what` names the object in the text of a refusal.
    pub(crate) async fn call<T: serde::de::DeserializeOwned>(
        &self,
        subject: String,
        request: &serde_json::Value,
        what: &str,
    ) -> Result<ApiResponse<T>> {
        let response = self.while_connected(self.jetstream.request(subject, request)).await?;
        match response.map_err(|error| error::map_request_error(error, &self.servers))? {
            Response::Ok(response) => Ok(ApiResponse::Found(response)),
            Response::Err { error }
                if matches!(
                    error.error_code(),
                    ErrorCode::STREAM_NOT_FOUND | ErrorCode::CONSUMER_NOT_FOUND
                ) =>
            {
                Ok(ApiResponse::NotFound)
            }
            Response::Err { error } => Err(error::map_api_error(error, what)),
        }
    }
}
