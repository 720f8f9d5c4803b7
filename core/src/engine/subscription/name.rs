//! Name of a subscription, and its state for operators.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::model::{NAME_LEN_MAX, Topic, TransportName};
use crate::policy::Circuit;

/// The identity of a subscription: the same in every process and after every start.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct SubscriptionName {
    /// The transport.
    pub transport: TransportName,
    /// The topic.
    pub topic: Topic,
    /// The group.
    pub group: Arc<str>,
}

impl SubscriptionName {
    /// Creates a name; fails when one of its parts is invalid.
    pub fn new(
        transport: impl AsRef<str>,
        topic: impl AsRef<str>,
        group: impl AsRef<str>,
    ) -> Result<Self> {
        let (transport, topic) = (TransportName::new(transport)?, Topic::new(topic)?);
        let group = group.as_ref();
        if group.is_empty()
            || group.chars().count() > NAME_LEN_MAX
            || group.chars().any(char::is_control)
        {
            return Err(Error::invalid(format!(
                "the subscription to {topic:?} names the group {group:?}; a group has 1 to {NAME_LEN_MAX} printable characters"
            )));
        }
        Ok(Self { transport, topic, group: Arc::from(group) })
    }
}

impl fmt::Display for SubscriptionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { transport, topic, group } = self;
        write!(f, "{topic} for {group} on {transport}")
    }
}

/// Status of a subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SubscriptionStatus {
    /// Name of the subscription.
    pub name: SubscriptionName,
    /// Whether an operator paused it.
    pub paused: bool,
    /// State of its circuit; always closed without a breaker.
    pub circuit: Circuit,
    /// Whether it is subscribed at its transport; false while the transport is unreachable.
    pub connected: bool,
    /// Number of its messages that are handled in this process.
    pub running: usize,
}
