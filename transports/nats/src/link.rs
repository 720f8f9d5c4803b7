//! The connection and what everybody needs of it: whether it is up, and bounded ways to post, to ask and
//! to call JetStream's API. Nothing here waits longer than `patience`.

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

use crate::fault;

/// A connection.
pub(crate) struct Link {
    pub(crate) client: Client,
    pub(crate) jetstream: Context,
    pub(crate) clock: Arc<dyn Clock>,
    /// Hosts and ports, for people.
    pub(crate) place: String,
    /// How the subjects of JetStream's API begin.
    pub(crate) api: String,
    pub(crate) patience: Duration,
    /// Whether the connection is up.
    pub(crate) connected: watch::Receiver<bool>,
}

/// An answer of JetStream's API.
pub(crate) enum Answer<T> {
    Here(T),
    /// Neither stream nor consumer of this name.
    Absent,
}

impl Link {
    /// Whether the connection is up; changes as it does.
    pub(crate) fn connected(&self) -> watch::Receiver<bool> {
        self.connected.clone()
    }

    /// Sends without waiting for an answer. While the connection is down the client keeps what it can and
    /// sends it later.
    pub(crate) async fn post(&self, subject: Subject, payload: Bytes) -> Result<()> {
        let mut publish = pin!(self.client.publish(subject, payload));
        // The client nearly always has room; then no timer is needed.
        let sent = if let Some(sent) = publish.as_mut().now_or_never() {
            Some(sent)
        } else {
            let until = add(self.clock.now(), self.patience);
            within(&*self.clock, until, publish).await
        };
        match sent {
            Some(sent) => sent.map_err(|error| {
                Error::unavailable(format!("NATS at {} did not take it: {error}", self.place))
            }),
            None => Err(fault::silent(&self.place)),
        }
    }

    /// Sends and waits until the broker says that it has done it.
    pub(crate) async fn ask(&self, subject: Subject, payload: Bytes) -> Result<()> {
        let asked = self.while_connected(self.client.request(subject, payload)).await?;
        asked.map(drop).map_err(|error| {
            Error::unavailable(format!("NATS at {} did not confirm it: {error}", self.place))
                .caused_by(error)
        })
    }

    /// Waits for work as long as the connection is up and patience lasts.
    pub(crate) async fn while_connected<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        let mut connected = self.connected();
        let until = add(self.clock.now(), self.patience);
        tokio::select! {
            biased;
            _ = connected.wait_for(|connected| !connected) => Err(fault::lost(&self.place)),
            done = work => Ok(done),
            () = self.clock.sleep_until(until) => Err(fault::silent(&self.place)),
        }
    }

    /// Calls JetStream's API; `what` ends the sentence of a refusal.
    pub(crate) async fn call<T: serde::de::DeserializeOwned>(
        &self,
        subject: String,
        request: &serde_json::Value,
        what: &str,
    ) -> Result<Answer<T>> {
        let called = self.while_connected(self.jetstream.request(subject, request)).await?;
        match called.map_err(|error| fault::from_request(error, &self.place))? {
            Response::Ok(answer) => Ok(Answer::Here(answer)),
            Response::Err { error }
                if matches!(
                    error.error_code(),
                    ErrorCode::STREAM_NOT_FOUND | ErrorCode::CONSUMER_NOT_FOUND
                ) =>
            {
                Ok(Answer::Absent)
            }
            Response::Err { error } => Err(fault::from_api(error, what)),
        }
    }
}
