//! Request of a subscription, and its check: names, numbers, and the transport, handler and storage it needs.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{ReceiveOptions, SubscriptionSpec};
use crate::engine::SubscriptionName;
use crate::engine::{Registration, Registry};
use crate::error::{Error, Result};
use crate::handler::{States, UnboundHandler};
use crate::model::{HandlerOptions, Rate, TransportName};
use crate::options::Options;
use crate::policy::Breaker;
use crate::transport::{AttemptCount, Transport};

/// Largest number of inline retries within one delivery.
const INLINE_RETRIES_MAX: u32 = 100;

/// A subscription as it was requested, not checked yet.
pub(crate) struct SubscriptionRequest {
    pub(crate) transport: String,
    pub(crate) topic: String,
    pub(crate) group: String,
    pub(crate) handler: Option<(UnboundHandler, HandlerOptions)>,
    pub(crate) concurrency: Option<usize>,
    pub(crate) prefetch: Option<usize>,
    pub(crate) rate: Option<Rate>,
    pub(crate) key_rate: Option<Rate>,
    pub(crate) key_concurrency: Option<usize>,
    pub(crate) deliveries_max: Option<u32>,
    pub(crate) inline_retries: u32,
    pub(crate) acknowledge_first: bool,
    pub(crate) breaker: Option<Breaker>,
    pub(crate) paused: bool,
}

/// Parts of the process that a subscription is checked against.
pub(crate) struct SubscriptionContext<'a> {
    pub(crate) transports: &'a BTreeMap<TransportName, Arc<dyn Transport>>,
    pub(crate) registry: &'a Registry,
    pub(crate) states: &'a States,
    pub(crate) options: &'a Options,
    pub(crate) has_storage: bool,
}

impl SubscriptionRequest {
    pub(crate) fn new(transport: String, topic: String, group: String) -> Self {
        Self {
            transport,
            topic,
            group,
            handler: None,
            concurrency: None,
            prefetch: None,
            rate: None,
            key_rate: None,
            key_concurrency: None,
            deliveries_max: None,
            inline_retries: 0,
            acknowledge_first: false,
            breaker: None,
            paused: false,
        }
    }

    /// Checks the request; the error names what is wrong.
    pub(crate) fn check(self, context: &SubscriptionContext<'_>) -> Result<SubscriptionSpec> {
        let name = SubscriptionName::new(&self.transport, &self.topic, &self.group)?;
        let topic = &name.topic;
        let Some(transport) = context.transports.get(&name.transport) else {
            return Err(Error::invalid(format!(
                "the subscription to {topic:?} names the transport {:?}, which was not given to the builder",
                name.transport
            )));
        };
        if transport.storage().is_some() && name.group.contains('/') {
            return Err(Error::invalid(format!(
                "the group {:?} of {topic:?} holds a '/', which the transport {:?} cannot keep apart; leave it out",
                name.group, name.transport
            )));
        }
        let wrong = |what: String| {
            Error::invalid(format!("the subscription to {topic:?} for {:?} {what}", name.group))
        };
        let receive_options = self.numbers(context.options).map_err(wrong)?;
        if receive_options.deliveries_max.is_some_and(|count| count > 1)
            && !context.has_storage
            && transport.capabilities().attempts != AttemptCount::Counted
        {
            return Err(wrong(format!(
                "counts deliveries, but the transport {:?} does not and there is no storage to keep the count; give the builder a storage, or allow one delivery",
                name.transport
            )));
        }
        let registration = match self.handler {
            Some((handler, handler_options)) => {
                handler_options.check()?;
                let (handler, must_report) = handler.bind(context.states).map_err(|error| {
                    Error::invalid(format!("the handler of the subscription to {topic:?} {error}"))
                })?;
                Some(Arc::new(Registration::new(handler, handler_options, must_report)))
            }
            None if context.registry.contains(topic) => None,
            None => {
                return Err(Error::invalid(format!(
                    "the subscription to {topic:?} has no handler; add one with handler()"
                )));
            }
        };
        Ok(SubscriptionSpec { name, registration, receive_options })
    }

    /// Returns the checked numbers, or what is wrong with them.
    fn numbers(&self, options: &Options) -> Result<ReceiveOptions, String> {
        let named = [
            ("concurrency", self.concurrency),
            ("prefetch", self.prefetch),
            ("key_concurrency", self.key_concurrency),
        ];
        for (name, value) in named {
            if value == Some(0) {
                return Err(format!("has {name} 0; it must be at least 1"));
            }
        }
        for rate in [self.rate, self.key_rate].into_iter().flatten() {
            if rate.count == 0 || rate.per.is_zero() {
                return Err(format!(
                    "allows {} starts in {:?}; give at least 1 in a duration such as 1s",
                    rate.count, rate.per
                ));
            }
        }
        if self.inline_retries > INLINE_RETRIES_MAX {
            return Err(format!(
                "has {} inline retries; {INLINE_RETRIES_MAX} are allowed, let the retry policy do the rest",
                self.inline_retries
            ));
        }
        if self.acknowledge_first
            && (self.inline_retries > 0 || self.deliveries_max.is_some_and(|count| count > 1))
        {
            return Err("is at most once, so nothing is tried again; leave the retries out".into());
        }
        if let Some(breaker) = &self.breaker {
            breaker.check().map_err(|error| format!("cannot have its breaker: {error}"))?;
        }
        let concurrency = match (self.concurrency, self.prefetch) {
            (Some(concurrency), Some(prefetch)) if prefetch < concurrency => {
                return Err(format!(
                    "has prefetch {prefetch}, so its concurrency of {concurrency} is never reached; raise one or lower the other"
                ));
            }
            (Some(concurrency), _) => concurrency,
            (None, prefetch) => options.concurrency.min(prefetch.unwrap_or(usize::MAX)),
        };
        Ok(ReceiveOptions {
            concurrency,
            prefetch: self.prefetch.unwrap_or(concurrency),
            rate: self.rate,
            key_rate: self.key_rate,
            key_concurrency: self.key_concurrency,
            deliveries_max: self.deliveries_max,
            inline_retries: self.inline_retries,
            acknowledge_first: self.acknowledge_first,
            breaker: self.breaker,
        })
    }
}
