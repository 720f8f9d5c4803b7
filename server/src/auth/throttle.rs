//! Throttling of password attempts. Wrong passwords are counted by name and network together, and by network;
//! after a few, the next attempt from there is refused, for twice as long each time. A name alone is never refused,
//! so that others cannot lock an account: many wrong passwords for it only delay the next a little. A known
//! browser is counted by itself, and neither its network nor its name slows it.
//!
//! An attempt is counted before its password is hashed and uncounted when the password was right, so that concurrent
//! attempts count too.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use jiff::Timestamp;
use punctual::clock::{add, between};

use crate::problem::{ApiResult, Problem};

/// Wrong passwords for one name from one network before the next has to wait.
const PAIR_FREE: u32 = 5;
/// The longest wait for one name from one network.
const PAIR_WAIT_MAX: Duration = Duration::from_secs(15 * 60);
/// Wrong passwords from one network, which many users may share, before the next has to wait.
const NETWORK_FREE: u32 = 20;
/// The longest wait of a network.
const NETWORK_WAIT_MAX: Duration = Duration::from_secs(60);
/// Wrong passwords for one name, from all networks, before the next is delayed.
const NAME_FREE: u32 = 20;
/// Delay of a login to a name under attack.
const NAME_DELAY: Duration = Duration::from_secs(1);
/// How long a count is kept after its last wrong password.
const COUNT_TTL: Duration = Duration::from_secs(60 * 60);
/// Largest number of counts.
const COUNTS_MAX: usize = 10_000;
/// Number of characters of a name that are compared.
const NAME_LEN_MAX: usize = 200;

/// Key of a count.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    /// A name from a network.
    Pair(String, Option<IpAddr>),
    /// A known browser, by the hash of its cookie.
    Browser(String),
    /// A network.
    Network(IpAddr),
    /// A name from any network.
    Name(String),
    /// Sign-ins by a provider from a network.
    #[cfg(feature = "oidc")]
    SignIn(Option<IpAddr>),
}

impl Key {
    /// Returns the number of free attempts and the longest wait after them; none for a key that never refuses.
    fn limits(&self) -> Option<(u32, Duration)> {
        match self {
            Self::Pair(..) | Self::Browser(_) => Some((PAIR_FREE, PAIR_WAIT_MAX)),
            Self::Network(_) => Some((NETWORK_FREE, NETWORK_WAIT_MAX)),
            #[cfg(feature = "oidc")]
            Self::SignIn(_) => Some((NETWORK_FREE, NETWORK_WAIT_MAX)),
            Self::Name(_) => None,
        }
    }

    /// Returns whether a right password resets the count, not only its own attempt.
    fn is_reset_by_success(&self) -> bool {
        matches!(self, Self::Pair(..) | Self::Browser(_))
    }
}

/// All keys of one attempt.
#[derive(Clone, Debug)]
pub(super) struct Keys(Vec<Key>);

impl Keys {
    /// Returns the keys of an attempt for a name from an address.
    pub(super) fn of_name(name: &str, from: Option<IpAddr>) -> Self {
        let (name, network) = (shortened(name), from.map(network));
        let mut keys = vec![Key::Pair(name.clone(), network), Key::Name(name)];
        keys.extend(network.map(Key::Network));
        Self(keys)
    }

    /// Returns the keys of an attempt from a known browser.
    pub(super) fn of_browser(hash: &str) -> Self {
        Self(vec![Key::Browser(hash.to_owned())])
    }

    /// Returns the keys of a sign-in by a provider from an address.
    #[cfg(feature = "oidc")]
    pub(super) fn of_sign_in(from: Option<IpAddr>) -> Self {
        Self(vec![Key::SignIn(from.map(network))])
    }
}

#[derive(Clone, Copy, Debug)]
struct Count {
    wrong: u32,
    last: Timestamp,
}

impl Count {
    /// Returns when the next attempt is allowed.
    fn open_at(self, key: &Key) -> Timestamp {
        let Some((free, wait_max)) = key.limits() else { return self.last };
        let Some(beyond) = self.wrong.checked_sub(free) else { return self.last };
        add(self.last, Duration::from_secs(1 << beyond.min(20)).min(wait_max))
    }
}

/// Counts of wrong passwords.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    counts: Mutex<BTreeMap<Key, Count>>,
}

/// An attempt that counts as wrong unless it is resolved otherwise.
#[derive(Debug)]
pub(super) struct LoginAttempt {
    throttle: Arc<Throttle>,
    /// Its keys, and the instant of the previous attempt of each.
    counted: Vec<(Key, Option<Timestamp>)>,
    at: Timestamp,
}

impl Throttle {
    /// Refuses an attempt that has to wait, without counting it.
    pub(super) fn check(&self, keys: &Keys, now: Timestamp) -> ApiResult<()> {
        check_wait(&self.lock(), keys, now)
    }

    /// Counts an attempt, unless it has to wait.
    pub(super) fn begin(self: &Arc<Self>, keys: Keys, now: Timestamp) -> ApiResult<LoginAttempt> {
        let mut counts = self.lock();
        check_wait(&counts, &keys, now)?;
        counts.retain(|_, count| between(count.last, now) < COUNT_TTL);
        for _ in 0..(counts.len() + keys.0.len()).saturating_sub(COUNTS_MAX) {
            // The least relevant count.
            let least = counts.iter().min_by_key(|(_, count)| (count.wrong, count.last));
            let Some(least) = least.map(|(key, _)| key.clone()) else { break };
            counts.remove(&least);
        }
        let counted = keys.0.into_iter().map(|key| {
            let before = counts.get(&key).copied();
            let wrong = before.map_or(0, |count| count.wrong).saturating_add(1);
            counts.insert(key.clone(), Count { wrong, last: now });
            (key, before.map(|count| count.last))
        });
        let counted = counted.collect();
        Ok(LoginAttempt { throttle: self.clone(), counted, at: now })
    }

    /// Returns the delay of an attempt for this name; known browsers are not delayed.
    pub(super) fn delay(&self, name: &str) -> Option<Duration> {
        let counts = self.lock();
        let count = counts.get(&Key::Name(shortened(name)))?;
        (count.wrong >= NAME_FREE).then_some(NAME_DELAY)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Count>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LoginAttempt {
    /// Resolves the attempt as right: it is uncounted, and the count of the name from this network is reset.
    pub(super) fn was_right(self) {
        self.uncount(true);
    }

    /// Resolves the attempt as unchecked: it is uncounted.
    pub(super) fn was_not_checked(self) {
        self.uncount(false);
    }

    fn uncount(self, resets: bool) {
        let mut counts = self.throttle.lock();
        for (key, before) in self.counted {
            let Some(count) = counts.get_mut(&key) else { continue };
            count.wrong = count.wrong.saturating_sub(1);
            if let Some(before) = before
                && count.last == self.at
            {
                count.last = before;
            }
            if count.wrong == 0 || (resets && key.is_reset_by_success()) {
                counts.remove(&key);
            }
        }
    }
}

fn check_wait(counts: &BTreeMap<Key, Count>, keys: &Keys, now: Timestamp) -> ApiResult<()> {
    let open_at = keys.0.iter().filter_map(|key| Some(counts.get(key)?.open_at(key))).max();
    let Some(open_at) = open_at.filter(|open_at| *open_at > now) else { return Ok(()) };
    let wait = between(now, open_at).as_secs().max(1);
    let sentence = format!("too many failed attempts to log in; try again in {wait} s");
    Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, sentence).retry_after(wait))
}

fn shortened(name: &str) -> String {
    name.chars().take(NAME_LEN_MAX).collect()
}

/// Returns the network of an address: the address itself for IPv4, the /64 prefix for IPv6.
pub(super) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)))
        }
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests;
