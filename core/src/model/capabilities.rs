//! Capabilities of a transport: what it does by itself. What it does not, the engine does with the storage.

use std::time::Duration;

use serde::Serialize;

/// Capabilities of a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// Longest delay of a published message.
    pub publish_delay: Delay,
    /// Longest delay of a requeued delivery.
    pub requeue_delay: Delay,
    /// Whether rejected deliveries are kept by the broker.
    pub dead_letter: bool,
    /// Order of deliveries.
    pub ordering: Ordering,
    /// Whether several groups each get a copy.
    pub fan_out: bool,
    /// Count of deliveries.
    pub attempts: AttemptCount,
    /// Whether deliveries are acknowledged one by one.
    pub acknowledge: AcknowledgeMode,
    /// Whether an accepted message survives a restart of the broker.
    pub durable: bool,
    /// Largest body in bytes; none means no limit.
    pub payload_max: Option<usize>,
}

/// Longest delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Delay {
    /// No delay at all.
    None,
    /// At most this long.
    UpTo(Duration),
    /// Any delay.
    Any,
}

impl Delay {
    /// Returns whether a delay is supported; zero always is.
    pub fn supports(self, delay: Duration) -> bool {
        match self {
            Self::None => delay.is_zero(),
            Self::UpTo(limit) => delay <= limit,
            Self::Any => true,
        }
    }
}

/// Order of deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ordering {
    /// No order.
    None,
    /// In the order of sending, among messages with the same key.
    PerKey,
    /// In the order of sending.
    Total,
}

/// Count of deliveries by a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptCount {
    /// The transport counts, durably.
    Counted,
    /// The transport only marks a redelivery.
    RedeliveredFlag,
    /// None; the engine counts.
    None,
}

/// Whether deliveries are acknowledged one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AcknowledgeMode {
    /// Each delivery separately.
    Single,
    /// A delivery and all before it.
    Cumulative,
}
