//! Throttling of password guesses. Wrong passwords are counted by name and network together, and by network; after
//! a few of them the next guess from there is refused, for twice as long each time. A name alone never refuses
//! anything, so that a stranger cannot lock an account: many wrong passwords for it only delay the next a little. A
//! browser that logged in before is counted by itself, and neither its network nor its name slows it.
//!
//! A guess is counted before its password is hashed and taken back when the password was right, so that guesses made
//! at the same time are counted too.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use jiff::Timestamp;
use punctual::clock::{add, between};

use crate::problem::{Answer, Problem};

/// So many passwords for one name may be wrong from one network before the next has to wait.
const PAIR_FREE: u32 = 5;
/// The longest wait for one name from one network.
const PAIR_WAIT_MAX: Duration = Duration::from_secs(15 * 60);
/// So many passwords may be wrong from one network, which many people may share.
const NETWORK_FREE: u32 = 20;
/// The longest wait of a network.
const NETWORK_WAIT_MAX: Duration = Duration::from_secs(60);
/// So many passwords may be wrong for one name, from anywhere, before the next is delayed.
const NAME_FREE: u32 = 20;
/// The delay of a name that is being guessed at.
const NAME_DELAY: Duration = Duration::from_secs(1);
/// After this long without a wrong password, nothing of them is remembered.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60 * 60);
/// The most counts that are remembered.
const REMEMBERED_MAX: usize = 10_000;
/// The most characters of a name that tell it from others.
const NAME_LEN_MAX: usize = 200;

/// What a guess is counted by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    /// A name from a network.
    Pair(String, Option<IpAddr>),
    /// A browser that logged in before, by the hash of its cookie.
    Browser(String),
    /// A network.
    Network(IpAddr),
    /// A name from anywhere.
    Name(String),
    /// Sign-ins by a provider from a network.
    #[cfg(feature = "oidc")]
    SignIn(Option<IpAddr>),
}

impl Key {
    /// How many may be wrong, and the longest wait after that; none for what never refuses.
    fn limits(&self) -> Option<(u32, Duration)> {
        match self {
            Self::Pair(..) | Self::Browser(_) => Some((PAIR_FREE, PAIR_WAIT_MAX)),
            Self::Network(_) => Some((NETWORK_FREE, NETWORK_WAIT_MAX)),
            #[cfg(feature = "oidc")]
            Self::SignIn(_) => Some((NETWORK_FREE, NETWORK_WAIT_MAX)),
            Self::Name(_) => None,
        }
    }

    /// Whether a right password clears the whole count, not only its own guess.
    fn is_cleared(&self) -> bool {
        matches!(self, Self::Pair(..) | Self::Browser(_))
    }
}

/// Everything that one guess is counted by.
#[derive(Clone, Debug)]
pub(super) struct Keys(Vec<Key>);

impl Keys {
    /// A guess of the password of a name, from an address.
    pub(super) fn of_name(name: &str, from: Option<IpAddr>) -> Self {
        let (name, network) = (shortened(name), from.map(network));
        let mut keys = vec![Key::Pair(name.clone(), network), Key::Name(name)];
        keys.extend(network.map(Key::Network));
        Self(keys)
    }

    /// A guess by a browser that logged in before.
    pub(super) fn of_browser(hash: &str) -> Self {
        Self(vec![Key::Browser(hash.to_owned())])
    }

    /// A sign-in by a provider, from an address.
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
    /// When the next guess may come.
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

/// A guess that is counted as wrong until it is said to be something else.
#[derive(Debug)]
pub(super) struct Guess {
    throttle: Arc<Throttle>,
    /// What it is counted by, and when a guess was last counted there before.
    counted: Vec<(Key, Option<Timestamp>)>,
    at: Timestamp,
}

impl Throttle {
    /// Refuses a guess that has to wait, without counting it.
    pub(super) fn check(&self, keys: &Keys, now: Timestamp) -> Answer<()> {
        refuse_early(&self.lock(), keys, now)
    }

    /// Counts a guess, unless it has to wait.
    pub(super) fn begin(self: &Arc<Self>, keys: Keys, now: Timestamp) -> Answer<Guess> {
        let mut counts = self.lock();
        refuse_early(&counts, &keys, now)?;
        counts.retain(|_, count| between(count.last, now) < FORGOTTEN_AFTER);
        for _ in 0..(counts.len() + keys.0.len()).saturating_sub(REMEMBERED_MAX) {
            // The least that is known of anything.
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
        Ok(Guess { throttle: self.clone(), counted, at: now })
    }

    /// How long a guess of this name is delayed, which it never is from a browser that logged in before.
    pub(super) fn delay(&self, name: &str) -> Option<Duration> {
        let counts = self.lock();
        let count = counts.get(&Key::Name(shortened(name)))?;
        (count.wrong >= NAME_FREE).then_some(NAME_DELAY)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Count>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Guess {
    /// Says that the password was right: the name is free again from this network, and the guess counts nowhere.
    pub(super) fn was_right(self) {
        self.take_back(true);
    }

    /// Says that the password could not be checked, so that the guess counts nowhere.
    pub(super) fn was_not_judged(self) {
        self.take_back(false);
    }

    fn take_back(self, clears: bool) {
        let mut counts = self.throttle.lock();
        for (key, before) in self.counted {
            let Some(count) = counts.get_mut(&key) else { continue };
            count.wrong = count.wrong.saturating_sub(1);
            if let Some(before) = before
                && count.last == self.at
            {
                count.last = before;
            }
            if count.wrong == 0 || (clears && key.is_cleared()) {
                counts.remove(&key);
            }
        }
    }
}

fn refuse_early(counts: &BTreeMap<Key, Count>, keys: &Keys, now: Timestamp) -> Answer<()> {
    let open_at = keys.0.iter().filter_map(|key| Some(counts.get(key)?.open_at(key))).max();
    let Some(open_at) = open_at.filter(|open_at| *open_at > now) else { return Ok(()) };
    let wait = between(now, open_at).as_secs().max(1);
    let sentence = format!("too many failed attempts to log in; try again in {wait} s");
    Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, sentence).retry_after(wait))
}

fn shortened(name: &str) -> String {
    name.chars().take(NAME_LEN_MAX).collect()
}

/// The network of an address: one of IPv4 by itself, and of IPv6 the 64 bits that one customer has at least.
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
