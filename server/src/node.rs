//! Node: identity and in-memory state of this server; nothing here outlives the process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use punctual::health::Health;
use punctual::model::{ProcessId, Queue};
use punctual::status::Status;
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::alerts::{Alerts, RefusedConfiguration};
use crate::api::{DeadGroups, QueueMeasurements, RecentTopics};
use crate::cache::CachedValue;
use crate::idempotency::{InFlight, RequestOwner};
use crate::listen::ConnectionCounters;
use crate::live::Live;
use crate::metrics::Meters;

/// Largest number of HTTP workers that wait for messages concurrently.
const WAITING_MAX: usize = 4_096;
/// Largest number of concurrent event streams.
const LISTENERS_MAX: usize = 500;

/// Name and roles of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The display name.
    pub name: String,
    /// The roles, such as `scheduler`.
    pub roles: Vec<String>,
}

impl Default for Identity {
    fn default() -> Self {
        let roles = ["scheduler", "worker", "api", "relay"];
        Self { name: "punctual".to_owned(), roles: roles.map(ToOwned::to_owned).to_vec() }
    }
}

/// In-memory state of one node.
pub(crate) struct Node {
    pub(crate) identity: Identity,
    pub(crate) started_at: Timestamp,
    pub(crate) meters: Meters,
    pub(crate) live: Live,
    /// Counters of connections.
    pub(crate) connections: Arc<ConnectionCounters>,
    /// Permits of waiting HTTP workers.
    pub(crate) waiting: Arc<Semaphore>,
    /// Permits of event streams.
    pub(crate) listeners: Arc<Semaphore>,
    /// Number of event streams of each caller.
    pub(crate) listening: Arc<Mutex<BTreeMap<String, usize>>>,
    /// When this node last recorded each HTTP worker.
    pub(crate) recorded_workers: Mutex<BTreeMap<ProcessId, Timestamp>>,
    /// Queues that were paused because this process is quiet.
    pub(crate) paused_by_quiet: Mutex<BTreeSet<Queue>>,
    /// Identity of this server in records of keyed requests.
    pub(crate) owner: RequestOwner,
    /// Keyed requests in flight.
    pub(crate) in_flight: InFlight,
    pub(crate) health: CachedValue<Health>,
    pub(crate) alerts: CachedValue<Arc<Alerts>>,
    /// The refused configuration, until it is corrected.
    pub(crate) refused: Mutex<Option<RefusedConfiguration>>,
    pub(crate) overview: CachedValue<Value>,
    pub(crate) dead_groups: CachedValue<Arc<DeadGroups>>,
    pub(crate) queues_measured: CachedValue<Arc<QueueMeasurements>>,
    pub(crate) statuses: CachedValue<Arc<Status>>,
    /// Number of job changes at the last computation of `statuses`.
    pub(crate) jobs_changed: AtomicU64,
    pub(crate) topics_seen: CachedValue<Arc<RecentTopics>>,
    /// Number of webhook changes on this node.
    pub(crate) webhooks_changed: AtomicU64,
    /// The configuration in force, without secrets.
    pub(crate) settings: Option<Value>,
}

impl Node {
    /// Drops every cached list because the storage does not respond.
    pub(crate) fn forget_lists(&self) {
        self.overview.forget();
        self.dead_groups.forget();
        self.queues_measured.forget();
        self.statuses.forget();
        self.topics_seen.forget();
        self.alerts.forget();
        self.live.forget_counts();
    }

    /// Returns the state of a node that starts now.
    pub(crate) fn new(now: Timestamp) -> Self {
        Self {
            identity: Identity::default(),
            started_at: now,
            meters: Meters::default(),
            live: Live::default(),
            connections: Arc::default(),
            waiting: Arc::new(Semaphore::new(WAITING_MAX)),
            listeners: Arc::new(Semaphore::new(LISTENERS_MAX)),
            listening: Arc::default(),
            recorded_workers: Mutex::default(),
            paused_by_quiet: Mutex::default(),
            owner: RequestOwner::new(now),
            in_flight: InFlight::default(),
            health: CachedValue::default(),
            alerts: CachedValue::default(),
            refused: Mutex::default(),
            overview: CachedValue::default(),
            dead_groups: CachedValue::default(),
            queues_measured: CachedValue::default(),
            statuses: CachedValue::default(),
            jobs_changed: AtomicU64::default(),
            topics_seen: CachedValue::default(),
            webhooks_changed: AtomicU64::new(0),
            settings: None,
        }
    }
}
