//! Receipt: by which an attempted message goes back to where it came from. A claim is settled in its storage by
//! its lease (`lease.rs`), a delivery with its broker (`broker.rs`); the rest of the engine does not distinguish
//! them.

mod broker;
mod broker_settlement;
mod lease;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use broker::BrokerReceipt;
use futures_util::future::BoxFuture;
use jiff::Timestamp;

use super::held_message::snoozes_of;
use super::in_flight::{InFlightGuard, StorageLease};
use super::settle::EndedAttempt;
use super::{Process, Settler, SubscriptionSpec};
use crate::error::Result;
use crate::handler::Context;
use crate::model::{Body, Message};
use crate::policy::AttemptEnd;
use crate::storage::Storage;
use crate::transport::{Acknowledge, Delivery, LeaseReceipt, Receipt as TransportReceipt};

/// Receipt of a message: settles it, once, where it came from.
#[async_trait]
pub(crate) trait Receipt: Send + Sync + 'static {
    /// Settles an ended attempt as far as possible without waiting; returns a future for the rest.
    fn settle(self: Box<Self>, settler: &Settler, ended: EndedAttempt)
    -> Option<BoxFuture<'_, ()>>;

    /// Releases a message that was not started, due at an instant; returns a future for what has to wait.
    fn release(
        self: Box<Self>,
        settler: &Settler,
        unstarted: UnstartedMessage,
    ) -> Option<BoxFuture<'_, ()>>;

    /// Acknowledges a message before it is handled.
    async fn acknowledge(self: Box<Self>, process: &Process) -> Result<()>;

    /// Returns the end of an attempt as far as its message can still be put back.
    fn possible_end(&self, _process: &Process, end: AttemptEnd) -> AttemptEnd {
        end
    }

    /// Returns the storage that has the history of the message.
    fn history<'a>(&'a self, process: &'a Process) -> &'a Arc<dyn Storage>;

    /// Returns for how long the message was put off because it had no handler, where that is stored with it.
    async fn unhandled(&self, process: &Process, message: &Message) -> Option<Duration>;
}

/// A message that was not started, to be released due at an instant.
pub(crate) struct UnstartedMessage {
    pub(crate) context: Context,
    pub(crate) in_flight_guard: InFlightGuard,
    pub(crate) due_at: Timestamp,
}

/// A message to attempt, with its counters and its receipt.
pub(crate) struct ReceivedMessage {
    pub(crate) message: Arc<Message>,
    /// Number of this attempt, from 1.
    pub(crate) attempt: u32,
    /// Error of decoding its body, if it failed.
    pub(crate) poison: Option<String>,
    pub(crate) due_at: Timestamp,
    pub(crate) crashes: u32,
    pub(crate) snoozes: u32,
    pub(crate) cancel_requested: bool,
    pub(crate) checkpoint: Option<Body>,
    /// Its lease, which the heartbeat renews. A message without one is delivered again by its broker.
    pub(crate) lease: Option<StorageLease>,
    pub(crate) receipt: Box<dyn Receipt>,
}

impl ReceivedMessage {
    /// Returns a message that was claimed from a storage.
    pub(super) fn claimed(receipt: Box<LeaseReceipt>) -> Self {
        let LeaseReceipt { claimed, storage } = &*receipt;
        Self {
            message: claimed.message.clone(),
            attempt: claimed.attempt,
            poison: None,
            due_at: claimed.due_at,
            crashes: claimed.crashes,
            snoozes: claimed.snoozes,
            cancel_requested: claimed.cancel_requested,
            checkpoint: claimed.checkpoint.clone(),
            lease: Some(StorageLease {
                lease_ref: claimed.lease_ref(),
                granted_until: claimed.lease.until,
                storage: storage.clone(),
            }),
            receipt,
        }
    }

    /// Returns a delivery of a subscription.
    pub(super) fn delivered(delivery: Delivery, spec: &Arc<SubscriptionSpec>) -> Self {
        let Delivery { message, attempt, poison, receipt } = delivery;
        match receipt {
            TransportReceipt::Lease(receipt) => Self { attempt, poison, ..Self::claimed(receipt) },
            TransportReceipt::Broker(receipt) => {
                Self::from_broker((message, attempt, poison), Some(receipt), spec)
            }
        }
    }

    /// Acknowledges it before it is handled and returns it without its lease.
    pub(super) async fn acknowledged(
        self,
        process: &Process,
        spec: &Arc<SubscriptionSpec>,
    ) -> Result<Self> {
        let Self { message, attempt, poison, receipt, .. } = self;
        receipt.acknowledge(process).await?;
        Ok(Self::from_broker((message, attempt, poison), None, spec))
    }

    fn from_broker(
        (message, attempt, poison): (Arc<Message>, u32, Option<String>),
        acknowledge: Option<Box<dyn Acknowledge>>,
        spec: &Arc<SubscriptionSpec>,
    ) -> Self {
        let (due_at, snoozes) = (message.due_at, snoozes_of(&message));
        let receipt = BrokerReceipt { acknowledge, spec: spec.clone() };
        Self {
            message,
            attempt,
            poison,
            due_at,
            crashes: 0,
            snoozes,
            cancel_requested: false,
            checkpoint: None,
            lease: None,
            receipt: Box::new(receipt),
        }
    }
}
