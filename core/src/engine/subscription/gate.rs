//! The gate of a subscription: which of the messages in hand may start now. What may not waits in hand,
//! behind those of its own key and beside all others; how much that is, is bounded by the prefetch. Leases
//! of what waits are renewed, because it counts as in flight.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

use super::Subscribed;
use crate::engine::Process;
use crate::engine::rates::ask;
use crate::engine::settle::Started;
use crate::handler::Cause;
use crate::model::{Key, Rate};
use crate::storage::RateRequest;

type Running = Arc<Mutex<HashMap<Key, usize>>>;

/// What waits in hand, and what it waits for.
pub(super) struct Gate {
    process: Arc<Process>,
    subscribed: Arc<Subscribed>,
    name: Key,
    waiting: VecDeque<Waiting>,
    running: Running,
    /// Until when the rate of a key is used up.
    keys_until: BTreeMap<Key, Timestamp>,
    /// Until when the subscription's own rate is.
    until: Option<Timestamp>,
}

struct Waiting {
    started: Box<Started>,
    /// Whether its key's rate has let it through; a permit is spent once.
    permitted: bool,
}

/// A message that may start, and what is freed when it has ended.
pub(super) type Ready = (Box<Started>, Option<KeyHeld>);

/// What a message has to wait for.
enum May {
    Start(Option<KeyHeld>),
    WaitForKey,
    WaitForAll,
}

impl Gate {
    pub(super) fn new(process: Arc<Process>, subscribed: Arc<Subscribed>) -> Self {
        let name = &subscribed.name;
        let name = format!("subscription/{}/{}/{}", name.transport, name.topic, name.group);
        Self {
            process,
            subscribed,
            name: Key::composed(name),
            waiting: VecDeque::new(),
            running: Running::default(),
            keys_until: BTreeMap::new(),
            until: None,
        }
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// When one of them may be able to start, as far as time is what they wait for.
    pub(super) fn wake_at(&self) -> Option<Timestamp> {
        if self.waiting.is_empty() {
            return None;
        }
        self.until.or_else(|| self.keys_until.values().min().copied())
    }

    pub(super) fn push(&mut self, started: Box<Started>) {
        self.waiting.push_back(Waiting { started, permitted: false });
    }

    /// Takes out everything, to be given back.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Box<Started>> {
        std::mem::take(&mut self.waiting).into_iter().map(|waiting| waiting.started)
    }

    /// Takes out at most `room` that may start, in their order.
    pub(super) async fn ready(&mut self, room: usize, now: Timestamp) -> Vec<Ready> {
        let mut ready = Vec::new();
        if self.until.is_some_and(|until| now < until) {
            return ready;
        }
        self.until = None;
        self.keys_until.retain(|_, until| *until > now);
        let mut blocked = self.keys_until.keys().cloned().collect();
        for mut one in std::mem::take(&mut self.waiting) {
            // Somebody else has it by now.
            if one.started.context.cancel_cause() == Some(Cause::LeaseLost) {
                continue;
            }
            if self.until.is_some() || ready.len() >= room {
                self.waiting.push_back(one);
                continue;
            }
            match self.may_start(&mut one, &mut blocked, now).await {
                May::Start(held) => ready.push((one.started, held)),
                May::WaitForKey | May::WaitForAll => self.waiting.push_back(one),
            }
        }
        ready
    }

    async fn may_start(
        &mut self,
        one: &mut Waiting,
        blocked: &mut BTreeSet<Key>,
        now: Timestamp,
    ) -> May {
        let receiving = &self.subscribed.receiving;
        let (rate, key_rate) = (receiving.rate, receiving.key_rate);
        let key_concurrency = receiving.key_concurrency;
        let key = one.started.delivery.message.key.clone();
        if let Some(key) = &key {
            let full = key_concurrency.is_some_and(|limit| self.running(key) >= limit);
            if blocked.contains(key) || full {
                blocked.insert(key.clone());
                return May::WaitForKey;
            }
            if let Some(rate) = key_rate.filter(|_| !one.permitted) {
                let name = Key::composed(format!("{}/{key}", self.name));
                if let Some(until) = self.refused(name, rate, now).await {
                    self.keys_until.insert(key.clone(), until);
                    blocked.insert(key.clone());
                    return May::WaitForKey;
                }
                one.permitted = true;
            }
        }
        if let Some(rate) = rate
            && let Some(until) = self.refused(self.name.clone(), rate, now).await
        {
            self.until = Some(until);
            return May::WaitForAll;
        }
        let counted = key.filter(|_| key_concurrency.is_some());
        May::Start(counted.map(|key| KeyHeld::new(self.running.clone(), key)))
    }

    fn running(&self, key: &Key) -> usize {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.get(key).copied().unwrap_or_default()
    }

    /// When a rate lets one more start, when it does not now.
    async fn refused(&self, name: Key, rate: Rate, now: Timestamp) -> Option<Timestamp> {
        let permitted = ask(&self.process, RateRequest { name, rate, wanted: 1 }, now).await;
        (permitted.granted == 0).then_some(permitted.next_at)
    }
}

/// Keeps a message of a key counted.
pub(super) struct KeyHeld {
    running: Running,
    key: Key,
}

impl KeyHeld {
    fn new(running: Running, key: Key) -> Self {
        *running.lock().unwrap_or_else(PoisonError::into_inner).entry(key.clone()).or_default() +=
            1;
        Self { running, key }
    }
}

impl Drop for KeyHeld {
    fn drop(&mut self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = running.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                running.remove(&self.key);
            }
        }
    }
}
