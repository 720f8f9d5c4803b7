//! Settings of a transport: what streams and consumers are created with and checked against.

use std::time::Duration;

/// Settings of streams and consumers.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) declare: bool,
    pub(crate) in_memory: bool,
    pub(crate) replicas: usize,
    /// JetStream's `ack_wait`.
    pub(crate) visibility_timeout: Duration,
    pub(crate) dead_letter_retention: Option<Duration>,
    pub(crate) deduplication_window: Option<Duration>,
    pub(crate) allow_no_subscribers: bool,
}
