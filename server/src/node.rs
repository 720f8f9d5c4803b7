//! What this node is, and what it keeps in memory for those who look: nothing here outlives the process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use punctual::health::Health;
use punctual::model::{ProcessId, Queue};
use punctual::status::Status;
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::alerts::{Alerts, Refused};
use crate::api::{DeadGroups, Measured, TopicsSeen};
use crate::cached::Cached;
use crate::idempotency::{InFlight, Owner};
use crate::listen::ConnectionCounters;
use crate::live::Live;
use crate::metrics::Meters;
use crate::walk::WALKS_AT_ONCE;

/// The most workers elsewhere that wait for something to do at once.
const WAITING_MAX: usize = 4_096;
/// The most who listen to events at once.
const LISTENERS_MAX: usize = 500;

/// Who a node says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// What people call it.
    pub name: String,
    /// What it does, such as `scheduler`.
    pub roles: Vec<String>,
}

impl Default for Identity {
    fn default() -> Self {
        let roles = ["scheduler", "worker", "api", "relay"];
        Self { name: "punctual".to_owned(), roles: roles.map(ToOwned::to_owned).to_vec() }
    }
}

/// What one node keeps.
pub(crate) struct Node {
    pub(crate) identity: Identity,
    pub(crate) started_at: Timestamp,
    pub(crate) meters: Meters,
    pub(crate) live: Live,
    /// What happened to connections.
    pub(crate) connections: Arc<ConnectionCounters>,
    /// Places for workers that wait.
    pub(crate) waiting: Arc<Semaphore>,
    /// Places for walks over schedules.
    pub(crate) walks: Arc<Semaphore>,
    /// Places for those who listen.
    pub(crate) listeners: Arc<Semaphore>,
    /// How many places each of them has.
    pub(crate) listening: Arc<Mutex<BTreeMap<String, usize>>>,
    /// When each worker elsewhere was last written down by this node.
    pub(crate) met: Mutex<BTreeMap<ProcessId, Timestamp>>,
    /// Queues that were paused because this process is to be quiet.
    pub(crate) hushed: Mutex<BTreeSet<Queue>>,
    /// Names this server in the records of the requests it works on.
    pub(crate) owner: Owner,
    /// The keyed requests that run here.
    pub(crate) in_flight: InFlight,
    pub(crate) health: Cached<Health>,
    pub(crate) alerts: Cached<Arc<Alerts>>,
    /// The configuration that was read again and refused, while it is not put right.
    pub(crate) refused: Mutex<Option<Refused>>,
    pub(crate) overview: Cached<Value>,
    pub(crate) dead_groups: Cached<Arc<DeadGroups>>,
    pub(crate) queues_measured: Cached<Arc<Measured>>,
    pub(crate) statuses: Cached<Arc<Status>>,
    /// How many changes of jobs this process had seen when they were last found.
    pub(crate) jobs_changed: AtomicU64,
    pub(crate) topics_seen: Cached<Arc<TopicsSeen>>,
    /// How often webhooks were changed on this node.
    pub(crate) webhooks_changed: AtomicU64,
    /// The configuration in force, without secrets.
    pub(crate) settings: Option<Value>,
}

impl Node {
    /// Forgets every list that was found before, because the storage does not answer.
    pub(crate) fn forget_lists(&self) {
        self.overview.forget();
        self.dead_groups.forget();
        self.queues_measured.forget();
        self.statuses.forget();
        self.topics_seen.forget();
        self.alerts.forget();
        self.live.forget_counts();
    }

    /// A node that has just started.
    pub(crate) fn new(now: Timestamp) -> Self {
        Self {
            identity: Identity::default(),
            started_at: now,
            meters: Meters::default(),
            live: Live::default(),
            connections: Arc::default(),
            waiting: Arc::new(Semaphore::new(WAITING_MAX)),
            walks: Arc::new(Semaphore::new(WALKS_AT_ONCE)),
            listeners: Arc::new(Semaphore::new(LISTENERS_MAX)),
            listening: Arc::default(),
            met: Mutex::default(),
            hushed: Mutex::default(),
            owner: Owner::new(now),
            in_flight: InFlight::default(),
            health: Cached::default(),
            alerts: Cached::default(),
            refused: Mutex::default(),
            overview: Cached::default(),
            dead_groups: Cached::default(),
            queues_measured: Cached::default(),
            statuses: Cached::default(),
            jobs_changed: AtomicU64::default(),
            topics_seen: Cached::default(),
            webhooks_changed: AtomicU64::new(0),
            settings: None,
        }
    }
}
