//! Admission of connections: limits in all and per address, eviction of idle connections, and counters. Connections
//! without a request in flight are closed to make room for new ones; busy connections are not.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use punctual::Clock;
use punctual::clock::between;
use tokio::sync::Notify;

use super::activity::{Activity, Overdue};
use crate::config::Networks;

/// Largest number of connections evicted together.
const EVICTION_BATCH: usize = 64;
/// Pause between searches for connections to evict, when there were none.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Shortest interval between log lines about refusals.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Counters of connections since the start, for metrics.
#[derive(Debug, Default)]
pub(crate) struct ConnectionCounters {
    /// Currently open.
    pub(crate) open: AtomicUsize,
    /// Refused by the limit in all.
    pub(crate) refused_by_limit: AtomicU64,
    /// Refused by the limit per address.
    pub(crate) refused_by_address: AtomicU64,
    /// Evicted to make room.
    pub(crate) evicted: AtomicU64,
    /// Closed by the header timeout.
    pub(crate) header_timeouts: AtomicU64,
    /// Closed by the idle timeout.
    pub(crate) idle_timeouts: AtomicU64,
    /// Closed by the write timeout.
    pub(crate) write_timeouts: AtomicU64,
}

impl ConnectionCounters {
    /// Counts a connection that was closed as overdue.
    pub(super) fn overdue(&self, why: Overdue) {
        let counter = match why {
            Overdue::Header => &self.header_timeouts,
            Overdue::Idle => &self.idle_timeouts,
            Overdue::Write => &self.write_timeouts,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Admission control of connections.
#[derive(Debug)]
pub(super) struct Admission {
    limit: usize,
    limit_per_address: usize,
    exempt: Networks,
    counters: Arc<ConnectionCounters>,
    clock: Arc<dyn Clock>,
    registry: Mutex<Registry>,
}

#[derive(Debug, Default)]
struct Registry {
    connections: BTreeMap<u64, Entry>,
    by_address: HashMap<IpAddr, usize>,
    /// Number of evicted connections that are not closed yet.
    evicting: usize,
    next: u64,
    /// Until when no connection to evict is searched.
    no_room_until: Option<Timestamp>,
    logged_at: Option<Timestamp>,
    /// Refusals that are not in the log yet.
    unlogged: u64,
}

#[derive(Debug)]
struct Entry {
    activity: Arc<Activity>,
    evict: Arc<Notify>,
    is_evicting: bool,
}

impl Registry {
    /// Logs refusals at a bounded rate.
    fn log(&mut self, now: Timestamp, key: &'static str, limit: usize) {
        self.unlogged += 1;
        if self.logged_at.is_none_or(|at| between(at, now) >= LOG_INTERVAL) {
            let refused = std::mem::take(&mut self.unlogged);
            self.logged_at = Some(now);
            let open = self.connections.len();
            tracing::warn!(
                refused,
                open,
                key,
                limit,
                "connections were refused: a limit is reached"
            );
        }
    }
}

impl Admission {
    pub(super) fn new(
        (limit, limit_per_address): (usize, usize),
        exempt: Networks,
        counters: Arc<ConnectionCounters>,
        clock: Arc<dyn Clock>,
    ) -> Arc<Self> {
        let registry = Mutex::default();
        Arc::new(Self { limit, limit_per_address, exempt, counters, clock, registry })
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a connection; returns none when it is refused.
    pub(super) fn admit(
        self: &Arc<Self>,
        from: IpAddr,
        activity: &Arc<Activity>,
    ) -> Option<ConnectionSlot> {
        let (from, now) = (counted(from), self.clock.now());
        let mut registry = self.registry();
        let taken = registry.by_address.get(&from).copied().unwrap_or_default();
        if taken >= self.limit_per_address && !self.exempt.has_address(from) {
            self.counters.refused_by_address.fetch_add(1, Ordering::Relaxed);
            let limit = self.limit_per_address;
            registry.log(now, "server.connections.limit_per_address", limit);
            return None;
        }
        if registry.connections.len() - registry.evicting >= self.limit
            && !self.make_room(&mut registry, now)
        {
            self.counters.refused_by_limit.fetch_add(1, Ordering::Relaxed);
            registry.log(now, "server.connections.limit", self.limit);
            return None;
        }
        let id = registry.next;
        registry.next += 1;
        let evict = Arc::new(Notify::new());
        let entry = Entry { activity: activity.clone(), evict: evict.clone(), is_evicting: false };
        registry.connections.insert(id, entry);
        *registry.by_address.entry(from).or_default() += 1;
        self.counters.open.store(registry.connections.len(), Ordering::Relaxed);
        Some(ConnectionSlot { admission: self.clone(), id, from, evict })
    }

    /// Evicts the connections that have been idle longest; returns whether there were any.
    fn make_room(&self, registry: &mut Registry, now: Timestamp) -> bool {
        if registry.no_room_until.is_some_and(|until| now < until) {
            return false;
        }
        let waiting = registry.connections.iter().filter(|(_, entry)| !entry.is_evicting);
        let mut waiting: Vec<(Timestamp, u64)> = waiting
            .filter_map(|(id, entry)| Some((entry.activity.waiting_since()?, *id)))
            .collect();
        waiting.sort_unstable();
        // Only a part of them, so that a small limit is not emptied in one step.
        waiting.truncate(EVICTION_BATCH.min(self.limit.div_ceil(16)));
        for (_, id) in &waiting {
            if let Some(entry) = registry.connections.get_mut(id) {
                entry.is_evicting = true;
                entry.evict.notify_one();
                registry.evicting += 1;
                self.counters.evicted.fetch_add(1, Ordering::Relaxed);
            }
        }
        if waiting.is_empty() {
            registry.no_room_until = Some(punctual::clock::add(now, CHECK_INTERVAL));
        }
        !waiting.is_empty()
    }

    /// Returns the number of connections.
    #[cfg(test)]
    fn open(&self) -> usize {
        self.registry().connections.len()
    }
}

/// The slot of a connection, released when dropped.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    admission: Arc<Admission>,
    id: u64,
    from: IpAddr,
    evict: Arc<Notify>,
}

impl ConnectionSlot {
    /// Waits until the connection is evicted.
    pub(super) async fn evicted(&self) {
        self.evict.notified().await;
    }

    /// Returns the counters.
    pub(super) fn counters(&self) -> &ConnectionCounters {
        &self.admission.counters
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut registry = self.admission.registry();
        if registry.connections.remove(&self.id).is_some_and(|entry| entry.is_evicting) {
            registry.evicting -= 1;
        }
        if let Some(taken) = registry.by_address.get_mut(&self.from) {
            *taken -= 1;
            if *taken == 0 {
                registry.by_address.remove(&self.from);
            }
        }
        registry.no_room_until = None;
        self.admission.counters.open.store(registry.connections.len(), Ordering::Relaxed);
    }
}

/// Returns the address that a connection is counted by; for IPv6 its /64 network.
pub(crate) fn counted(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Version;
    use punctual::ManualClock;

    use super::super::Timeouts;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    struct Harness {
        admission: Arc<Admission>,
        clock: Arc<ManualClock>,
    }

    impl Harness {
        fn new(limits: (usize, usize), exempt: &[&str]) -> Self {
            let clock = Arc::new(ManualClock::new("2026-03-01T12:00:00Z".parse().unwrap()));
            let exempt = exempt.iter().map(|text| (*text).to_owned()).collect();
            let exempt = Networks::read(exempt).unwrap();
            let admission = Admission::new(limits, exempt, Arc::default(), clock.clone());
            Self { admission, clock }
        }

        fn connect(&self, from: &str) -> Option<(ConnectionSlot, Arc<Activity>)> {
            let timeouts = Timeouts { header: SECOND, idle: SECOND, write: SECOND };
            let activity = Activity::new(timeouts, self.clock.clone());
            let place = self.admission.admit(from.parse().unwrap(), &activity)?;
            self.clock.advance(SECOND);
            Some((place, activity))
        }
    }

    #[test]
    fn an_address_gets_its_share_and_leaves_the_rest_to_others() {
        let harness = Harness::new((10, 2), &["10.0.0.0/8"]);
        let first = harness.connect("192.0.2.1").unwrap();
        let _second = harness.connect("192.0.2.1").unwrap();
        assert!(harness.connect("192.0.2.1").is_none());
        assert!(harness.connect("::ffff:192.0.2.1").is_none(), "the same address");
        let _other = harness.connect("192.0.2.2").unwrap();
        drop(first);
        let _third = harness.connect("192.0.2.1").unwrap();
        // An IPv6 subscriber has a whole network.
        let _six =
            [harness.connect("2001:db8::1").unwrap(), harness.connect("2001:db8::2").unwrap()];
        assert!(harness.connect("2001:db8::3").is_none());
        assert!(harness.connect("2001:db8:0:1::1").is_some(), "another network");
        let proxied: Vec<_> = (0..4).map(|_| harness.connect("10.0.0.1")).collect();
        assert!(proxied.iter().all(Option::is_some), "exempt");
        assert_eq!(harness.admission.counters.refused_by_address.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn waiting_connections_make_room_and_busy_ones_do_not() {
        let harness = Harness::new((2, 100), &[]);
        let (first, waiting) = harness.connect("192.0.2.1").unwrap();
        let (_second, busy) = harness.connect("192.0.2.2").unwrap();
        let request = busy.begin(Version::HTTP_11);
        let (third, also_busy) =
            harness.connect("192.0.2.3").expect("the first one is idle longest");
        assert_eq!(harness.admission.counters.evicted.load(Ordering::Relaxed), 1);
        let _requests = (waiting.begin(Version::HTTP_11), also_busy.begin(Version::HTTP_11));
        assert!(harness.connect("192.0.2.4").is_none(), "all connections are busy");
        drop(first);
        assert!(harness.connect("192.0.2.4").is_none(), "the first one was being evicted");
        drop(third);
        assert_eq!(harness.admission.open(), 1);
        let _fourth = harness.connect("192.0.2.4").unwrap();
        drop(request);
        assert!(harness.connect("192.0.2.5").is_some(), "one connection is idle again");
        assert_eq!(harness.admission.counters.refused_by_limit.load(Ordering::Relaxed), 2);
    }
}
