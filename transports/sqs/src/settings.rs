//! Settings of a transport: what queues are created with and checked against.

use std::time::Duration;

use crate::names::Names;

/// Settings of created queues, which existing queues are checked against.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) names: Names,
    /// Whether missing queues are created.
    pub(crate) declares: bool,
    /// Retention of messages, if the option was set.
    pub(crate) retention: Option<Duration>,
    /// Size limit of a message, dead letters included.
    pub(crate) message_max: usize,
}
