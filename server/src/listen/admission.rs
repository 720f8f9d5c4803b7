//! Admission of connections: how many there may be in all and per address, which of them make room for new ones, and
//! what was refused. Connections that wait for a request give way to new ones; those with a request under way do not.

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

/// How many connections are closed at once to make room.
const EVICTED_AT_ONCE: usize = 64;
/// How long is waited before connections to close are looked for again, when there were none.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// How often refusals are written to the log.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// What happened to connections since the start; read by the metrics.
#[derive(Debug, Default)]
pub(crate) struct ConnectionCounters {
    /// Open at present.
    pub(crate) open: AtomicUsize,
    /// Refused because of the limit in all.
    pub(crate) refused_by_limit: AtomicU64,
    /// Refused because of the limit per address.
    pub(crate) refused_by_address: AtomicU64,
    /// Closed to make room.
    pub(crate) evicted: AtomicU64,
    /// Closed because no header came in time.
    pub(crate) header_timeouts: AtomicU64,
    /// Closed because no further request came.
    pub(crate) idle_timeouts: AtomicU64,
    /// Closed because the client did not read.
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

/// Decides which connections are let in.
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
    /// Of the connections, those that were told to close and have not yet.
    leaving: usize,
    next: u64,
    /// Until when no connection is looked for that could be closed.
    no_room_until: Option<Timestamp>,
    logged_at: Option<Timestamp>,
    /// Refusals that are not in the log yet.
    unlogged: u64,
}

#[derive(Debug)]
struct Entry {
    activity: Arc<Activity>,
    evict: Arc<Notify>,
    is_leaving: bool,
}

impl Registry {
    /// Writes refusals to the log, every now and then.
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

    /// Lets a connection in, or refuses it.
    pub(super) fn admit(self: &Arc<Self>, from: IpAddr, activity: &Arc<Activity>) -> Option<Place> {
        let (from, now) = (counted(from), self.clock.now());
        let mut registry = self.registry();
        let taken = registry.by_address.get(&from).copied().unwrap_or_default();
        if taken >= self.limit_per_address && !self.exempt.has_address(from) {
            self.counters.refused_by_address.fetch_add(1, Ordering::Relaxed);
            let limit = self.limit_per_address;
            registry.log(now, "server.connections.limit_per_address", limit);
            return None;
        }
        if registry.connections.len() - registry.leaving >= self.limit
            && !self.make_room(&mut registry, now)
        {
            self.counters.refused_by_limit.fetch_add(1, Ordering::Relaxed);
            registry.log(now, "server.connections.limit", self.limit);
            return None;
        }
        let id = registry.next;
        registry.next += 1;
        let evict = Arc::new(Notify::new());
        let entry = Entry { activity: activity.clone(), evict: evict.clone(), is_leaving: false };
        registry.connections.insert(id, entry);
        *registry.by_address.entry(from).or_default() += 1;
        self.counters.open.store(registry.connections.len(), Ordering::Relaxed);
        Some(Place { admission: self.clone(), id, from, evict })
    }

    /// Tells the connections that have waited longest for a request to close; returns whether there were any.
    fn make_room(&self, registry: &mut Registry, now: Timestamp) -> bool {
        if registry.no_room_until.is_some_and(|until| now < until) {
            return false;
        }
        let waiting = registry.connections.iter().filter(|(_, entry)| !entry.is_leaving);
        let mut waiting: Vec<(Timestamp, u64)> = waiting
            .filter_map(|(id, entry)| Some((entry.activity.waiting_since()?, *id)))
            .collect();
        waiting.sort_unstable();
        // Never more than a part of them, so that a small limit is not emptied at once.
        waiting.truncate(EVICTED_AT_ONCE.min(self.limit.div_ceil(16)));
        for (_, id) in &waiting {
            if let Some(entry) = registry.connections.get_mut(id) {
                entry.is_leaving = true;
                entry.evict.notify_one();
                registry.leaving += 1;
                self.counters.evicted.fetch_add(1, Ordering::Relaxed);
            }
        }
        if waiting.is_empty() {
            registry.no_room_until = Some(punctual::clock::add(now, LOOK_INTERVAL));
        }
        !waiting.is_empty()
    }

    /// Returns how many connections there are.
    #[cfg(test)]
    fn open(&self) -> usize {
        self.registry().connections.len()
    }
}

/// The place of a connection; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    admission: Arc<Admission>,
    id: u64,
    from: IpAddr,
    evict: Arc<Notify>,
}

impl Place {
    /// Waits until the connection has to make room.
    pub(super) async fn evicted(&self) {
        self.evict.notified().await;
    }

    /// The counters of the socket.
    pub(super) fn counters(&self) -> &ConnectionCounters {
        &self.admission.counters
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut registry = self.admission.registry();
        if registry.connections.remove(&self.id).is_some_and(|entry| entry.is_leaving) {
            registry.leaving -= 1;
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

/// Returns the address that a connection is counted under: of IPv6 the network of one subscriber (/64).
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

    struct Door {
        admission: Arc<Admission>,
        clock: Arc<ManualClock>,
    }

    impl Door {
        fn new(limits: (usize, usize), exempt: &[&str]) -> Self {
            let clock = Arc::new(ManualClock::new("2026-03-01T12:00:00Z".parse().unwrap()));
            let exempt = exempt.iter().map(|text| (*text).to_owned()).collect();
            let exempt = Networks::read(exempt).unwrap();
            let admission = Admission::new(limits, exempt, Arc::default(), clock.clone());
            Self { admission, clock }
        }

        fn knock(&self, from: &str) -> Option<(Place, Arc<Activity>)> {
            let timeouts = Timeouts { header: SECOND, idle: SECOND, write: SECOND };
            let activity = Activity::new(timeouts, self.clock.clone());
            let place = self.admission.admit(from.parse().unwrap(), &activity)?;
            self.clock.advance(SECOND);
            Some((place, activity))
        }
    }

    #[test]
    fn an_address_gets_its_share_and_leaves_the_rest_to_others() {
        let door = Door::new((10, 2), &["10.0.0.0/8"]);
        let first = door.knock("192.0.2.1").unwrap();
        let _second = door.knock("192.0.2.1").unwrap();
        assert!(door.knock("192.0.2.1").is_none());
        assert!(door.knock("::ffff:192.0.2.1").is_none(), "the same address");
        let _other = door.knock("192.0.2.2").unwrap();
        drop(first);
        let _third = door.knock("192.0.2.1").unwrap();
        // A subscriber of IPv6 has a whole network.
        let _six = [door.knock("2001:db8::1").unwrap(), door.knock("2001:db8::2").unwrap()];
        assert!(door.knock("2001:db8::3").is_none());
        assert!(door.knock("2001:db8:0:1::1").is_some(), "another network");
        let proxied: Vec<_> = (0..4).map(|_| door.knock("10.0.0.1")).collect();
        assert!(proxied.iter().all(Option::is_some), "exempt");
        assert_eq!(door.admission.counters.refused_by_address.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn waiting_connections_make_room_and_busy_ones_do_not() {
        let door = Door::new((2, 100), &[]);
        let (first, waiting) = door.knock("192.0.2.1").unwrap();
        let (_second, busy) = door.knock("192.0.2.2").unwrap();
        let request = busy.begin(Version::HTTP_11);
        let (third, also_busy) = door.knock("192.0.2.3").expect("the first one waited longest");
        assert_eq!(door.admission.counters.evicted.load(Ordering::Relaxed), 1);
        let _requests = (waiting.begin(Version::HTTP_11), also_busy.begin(Version::HTTP_11));
        assert!(door.knock("192.0.2.4").is_none(), "everybody is busy");
        drop(first);
        assert!(door.knock("192.0.2.4").is_none(), "the first one was on its way out");
        drop(third);
        assert_eq!(door.admission.open(), 1);
        let _fourth = door.knock("192.0.2.4").unwrap();
        drop(request);
        assert!(door.knock("192.0.2.5").is_some(), "somebody waits again");
        assert_eq!(door.admission.counters.refused_by_limit.load(Ordering::Relaxed), 2);
    }
}
