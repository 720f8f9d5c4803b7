//! Wrong passwords cost time: after a few the next must wait, twice as long each time, by name and by
//! address.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use jiff::Timestamp;
use punctual::clock::{add, between};

use crate::problem::{Answer, Problem};

/// So many may be wrong before anybody has to wait.
const FREE: u32 = 5;
/// The longest wait.
const WAIT_MAX: Duration = Duration::from_secs(15 * 60);
/// After this long without a wrong one, nothing is held against anybody.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60 * 60);
/// The most names and addresses that are remembered.
const REMEMBERED_MAX: usize = 10_000;

/// Who was wrong how often.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    known: Mutex<BTreeMap<String, Wrong>>,
}

#[derive(Clone, Copy, Debug)]
struct Wrong {
    count: u32,
    last: Timestamp,
}

impl Wrong {
    fn until(self) -> Timestamp {
        let beyond = self.count.saturating_sub(FREE).min(20);
        let wait = if self.count < FREE { 0 } else { 1_u64 << beyond };
        add(self.last, Duration::from_secs(wait).min(WAIT_MAX))
    }
}

impl Throttle {
    /// Refuses whoever has to wait.
    pub(super) fn admit(&self, name: &str, from: Option<IpAddr>, now: Timestamp) -> Answer<()> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let keys = keys(name, from);
        let until = keys.iter().filter_map(|key| known.get(key)).map(|wrong| wrong.until());
        match until.max().filter(|until| *until > now) {
            None => Ok(()),
            Some(until) => {
                let wait = between(now, until).as_secs().max(1);
                let sentence = format!("too many failed attempts to log in; try again in {wait} s");
                Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, sentence).retry_after(wait))
            }
        }
    }

    pub(super) fn failed(&self, name: &str, from: Option<IpAddr>, now: Timestamp) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, wrong| between(wrong.last, now) < FORGOTTEN_AFTER);
        if known.len() >= REMEMBERED_MAX {
            let oldest =
                known.iter().min_by_key(|(_, wrong)| wrong.last).map(|(key, _)| key.clone());
            known.remove(&oldest.unwrap_or_default());
        }
        for key in keys(name, from) {
            let wrong = known.entry(key).or_insert(Wrong { count: 0, last: now });
            *wrong = Wrong { count: wrong.count.saturating_add(1), last: now };
        }
    }

    pub(super) fn succeeded(&self, name: &str, from: Option<IpAddr>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for key in keys(name, from) {
            known.remove(&key);
        }
    }
}

fn keys(name: &str, from: Option<IpAddr>) -> Vec<String> {
    let short: String = name.chars().take(200).collect();
    let mut keys = vec![format!("name {short}")];
    keys.extend(from.map(|from| format!("address {from}")));
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    // spec: C-6
    #[test]
    fn the_wait_doubles_and_ends_with_a_right_password() {
        let throttle = Throttle::default();
        for _ in 0..4 {
            throttle.failed("ada", None, at(0));
        }
        assert!(throttle.admit("ada", None, at(0)).is_ok());
        throttle.failed("ada", None, at(0));
        assert!(throttle.admit("ada", None, at(0)).is_err());
        assert!(throttle.admit("ada", None, at(1)).is_ok());
        throttle.failed("ada", None, at(1));
        assert!(throttle.admit("ada", None, at(2)).is_err());
        assert!(throttle.admit("ada", None, at(3)).is_ok());
        assert!(throttle.admit("bob", None, at(2)).is_ok());
        throttle.succeeded("ada", None);
        assert!(throttle.admit("ada", None, at(2)).is_ok());
    }

    #[test]
    fn an_address_that_tries_many_names_waits_as_well() {
        let throttle = Throttle::default();
        let from = Some(IpAddr::from([10, 0, 0, 1]));
        for name in ["a", "b", "c", "d", "e", "f"] {
            throttle.failed(name, from, at(0));
        }
        assert!(throttle.admit("new", from, at(0)).is_err());
        assert!(throttle.admit("new", None, at(0)).is_ok());
    }

    #[test]
    fn it_forgets_and_stays_bounded() {
        let throttle = Throttle::default();
        for number in 0..(REMEMBERED_MAX + 50) {
            throttle.failed(&format!("user{number}"), None, at(0));
        }
        assert!(throttle.known.lock().unwrap().len() <= REMEMBERED_MAX);
        throttle.failed("late", None, at(4_000));
        assert_eq!(throttle.known.lock().unwrap().len(), 1);
    }
}
