//! A subscription that was checked: who it is, whose handler it has, and how it receives.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::{add, within};
use crate::engine::settle::SubscribedTo;
use crate::engine::{Process, Registration};
use crate::error::{Error, Result};
use crate::model::{Message, Rate};
use crate::policy::{Breaker, EffectiveHandlerOptions};
use crate::subscription::SubscriptionName;
use crate::transport::{Consumer, Subscription};

/// How long a transport may take to answer a subscription.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(10);

/// A topic to receive from a transport.
pub(crate) struct Subscribed {
    pub(crate) name: SubscriptionName,
    /// Its own handler; without one it is the topic's.
    pub(crate) registration: Option<Arc<Registration>>,
    pub(crate) receiving: Receiving,
}

/// How it is received.
#[derive(Clone, Debug)]
pub(crate) struct Receiving {
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

impl Receiving {
    /// Whether messages may have to wait in hand before they start.
    pub(crate) fn is_limited(&self) -> bool {
        self.rate.is_some() || self.is_limited_by_key()
    }

    pub(crate) fn is_limited_by_key(&self) -> bool {
        self.key_rate.is_some() || self.key_concurrency.is_some()
    }

    /// Whether an attempt needs nothing but its message.
    pub(crate) fn is_plain(&self) -> bool {
        self.inline_retries == 0 && !self.acknowledge_first && self.breaker.is_none()
    }
}

impl Subscribed {
    /// Where its deliveries go back to.
    pub(crate) fn origin(&self) -> SubscribedTo {
        let SubscriptionName { transport, group, .. } = &self.name;
        SubscribedTo { transport: transport.clone(), group: group.to_string() }
    }

    /// The terms of a message, before any cap.
    pub(crate) fn handler_options(
        &self,
        process: &Process,
        message: &Message,
    ) -> Arc<EffectiveHandlerOptions> {
        match &self.registration {
            Some(own) => process.option_layers.effective(message, Some(own)),
            None => process.handler_options(message),
        }
    }

    /// The most attempts a message may have here, when that is less than its terms say.
    pub(crate) fn attempts_max(&self) -> Option<u32> {
        let Receiving { acknowledge_first, deliveries_max, .. } = self.receiving;
        if acknowledge_first { Some(1) } else { deliveries_max.map(|count| count.max(1)) }
    }
}

/// Subscribes at the transport; one that does not answer in time is out of reach.
pub(crate) async fn subscribe(
    process: &Process,
    subscribed: &Subscribed,
) -> Result<Box<dyn Consumer>> {
    let SubscriptionName { transport, topic, group } = &subscribed.name;
    let Some(carrier) = process.transports.get(transport) else {
        return Err(Error::internal(format!("the transport {transport:?} vanished after build")));
    };
    let subscription = Subscription {
        topic: topic.clone(),
        group: group.to_string(),
        prefetch: subscribed.receiving.prefetch,
    };
    let until = add(process.now(), SUBSCRIBE_TIMEOUT);
    let answer = within(&*process.clock, until, carrier.subscribe(subscription)).await;
    answer.unwrap_or_else(|| {
        Err(Error::unavailable(format!(
            "the transport {transport:?} did not answer within {SUBSCRIBE_TIMEOUT:?}"
        )))
    })
}
