//! Specification of a subscription after its check: name, handler, and how it receives.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::within;
use crate::engine::SubscriptionName;
use crate::engine::{Process, Registration};
use crate::error::{Error, Result};
use crate::model::time::add;
use crate::model::{Message, Rate};
use crate::policy::{Breaker, EffectiveHandlerOptions};
use crate::transport::{Consumer, Subscription};

/// Timeout of a subscribe call at a transport.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(10);

/// A topic to receive from a transport, checked.
pub(crate) struct SubscriptionSpec {
    pub(crate) name: SubscriptionName,
    /// Its own handler; `None` for the handler of the topic.
    pub(crate) registration: Option<Arc<Registration>>,
    pub(crate) receive_options: ReceiveOptions,
}

/// How messages of a subscription are received and limited.
#[derive(Clone, Debug)]
pub(crate) struct ReceiveOptions {
    pub(crate) concurrency: usize,
    pub(crate) prefetch: usize,
    pub(crate) rate: Option<Rate>,
    pub(crate) key_rate: Option<Rate>,
    pub(crate) key_concurrency: Option<usize>,
    pub(crate) deliveries_max: Option<u32>,
    pub(crate) inline_retries: u32,
    pub(crate) acknowledge_first: bool,
    pub(crate) breaker: Option<Breaker>,
}

impl ReceiveOptions {
    /// Returns whether received messages may have to wait before they start.
    pub(crate) fn is_limited(&self) -> bool {
        self.rate.is_some() || self.is_limited_by_key()
    }

    pub(crate) fn is_limited_by_key(&self) -> bool {
        self.key_rate.is_some() || self.key_concurrency.is_some()
    }
}

impl SubscriptionSpec {
    /// Returns the options of a message, before any limit of attempts.
    pub(crate) fn handler_options(
        &self,
        process: &Process,
        message: &Message,
    ) -> Arc<EffectiveHandlerOptions> {
        match &self.registration {
            Some(registration) => {
                process.runner.option_layers.effective(message, Some(registration))
            }
            None => process.handler_options(message),
        }
    }

    /// Returns the subscription's own limit of attempts, if it has one.
    pub(crate) fn attempts_max(&self) -> Option<u32> {
        let ReceiveOptions { acknowledge_first, deliveries_max, .. } = self.receive_options;
        if acknowledge_first { Some(1) } else { deliveries_max.map(|count| count.max(1)) }
    }
}

/// Subscribes at the transport; fails as unavailable when the transport does not respond in time.
pub(crate) async fn subscribe(
    process: &Process,
    spec: &SubscriptionSpec,
) -> Result<Box<dyn Consumer>> {
    let SubscriptionName { transport, topic, group } = &spec.name;
    let Some(carrier) = process.sender.transports.get(transport) else {
        return Err(Error::internal(format!("the transport {transport:?} vanished after build")));
    };
    let subscription = Subscription {
        topic: topic.clone(),
        group: group.to_string(),
        prefetch: spec.receive_options.prefetch,
    };
    let until = add(process.now(), SUBSCRIBE_TIMEOUT);
    let result = within(&*process.env.clock, until, carrier.subscribe(subscription)).await;
    result.unwrap_or_else(|| {
        Err(Error::unavailable(format!(
            "the transport {transport:?} did not respond within {SUBSCRIBE_TIMEOUT:?}"
        )))
    })
}
