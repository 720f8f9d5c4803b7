//! Settings of a transport, and calls to the broker within their timeout.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use punctual::backend::wire::Wrapping;
use punctual::clock::{self, Clock};
use punctual::model::{Ids, Topic};
use punctual::{Error, Result};
use tokio_rustls::TlsConnector;

use crate::address::Address;
use crate::connection_loss::ConnectionLosses;
use crate::error::ErrorContext;
use crate::names::{self, Entities};

/// Options of a transport, and calls to the broker within their timeout.
pub(crate) struct Settings {
    pub(crate) address: Address,
    pub(crate) endpoint: String,
    pub(crate) tls: Option<TlsConnector>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Ids,
    pub(crate) prefix: String,
    pub(crate) entities: Entities,
    pub(crate) timeout: Duration,
    pub(crate) token_ttl: Duration,
    pub(crate) payload_max: usize,
    pub(crate) deliveries_max: u32,
    pub(crate) wrapping: Wrapping,
    pub(crate) losses: ConnectionLosses,
}

impl Settings {
    /// Returns the endpoint and entity that an error message names.
    pub(crate) fn error_context<'a>(&'a self, entity: &'a str) -> ErrorContext<'a> {
        ErrorContext { endpoint: &self.endpoint, entity }
    }

    /// Returns the name of a topic's entity.
    pub(crate) fn entity(&self, topic: &Topic) -> Result<String> {
        let name = names::entity(&self.prefix, topic)?;
        match &self.address.entity {
            Some(only) if *only != name => Err(Error::invalid(format!(
                "the connection string is for {only:?} alone and the topic is {name:?}; use a connection string without EntityPath"
            ))),
            _ => Ok(name),
        }
    }

    /// Runs a call to the broker within the timeout.
    pub(crate) async fn within_timeout<T>(
        &self,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let until = clock::add(self.clock.now(), self.timeout);
        let done = clock::within(&*self.clock, until, work).await;
        done.unwrap_or_else(|| Err(self.error_context("").timed_out()))
    }
}
