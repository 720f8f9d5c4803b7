//! Limiter of a subscription: decides which received messages may start now, by rate and by key. The others
//! wait in memory, in the order of their key; the prefetch limits their number. Their leases are renewed,
//! because they count as in flight.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

use super::SubscriptionSpec;
use crate::engine::Process;
use crate::engine::rates::acquire;
use crate::engine::started_attempt::StartedAttempt;
use crate::handler::CancelCause;
use crate::model::{Key, Rate};
use crate::storage::RateRequest;

type Running = Arc<Mutex<HashMap<Key, usize>>>;

/// Received messages that wait, and the limits they wait for.
pub(super) struct Limiter {
    process: Arc<Process>,
    spec: Arc<SubscriptionSpec>,
    name: Key,
    waiting: VecDeque<WaitingDelivery>,
    running: Running,
    /// Instants until which the rate of a key is used up.
    keys_until: BTreeMap<Key, Timestamp>,
    /// Instant until which the subscription's own rate is used up.
    until: Option<Timestamp>,
}

struct WaitingDelivery {
    started: Box<StartedAttempt>,
    /// Whether the rate of its key has granted it a start; a start is acquired once.
    has_key_start: bool,
}

/// A message that may start, and the guard to drop when it has ended.
pub(super) type ReadyDelivery = (Box<StartedAttempt>, Option<KeyGuard>);

/// Whether a message may start, or what it waits for.
enum StartDecision {
    Start(Option<KeyGuard>),
    WaitForKey,
    WaitForAll,
}

impl Limiter {
    pub(super) fn new(process: Arc<Process>, spec: Arc<SubscriptionSpec>) -> Self {
        let name = &spec.name;
        let name = format!("subscription/{}/{}/{}", name.transport, name.topic, name.group);
        Self {
            process,
            spec,
            name: Key::composed(name),
            waiting: VecDeque::new(),
            running: Running::default(),
            keys_until: BTreeMap::new(),
            until: None,
        }
    }

    /// Returns the number of waiting messages.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Returns when one of them may start, where a rate delays it.
    pub(super) fn wake_at(&self) -> Option<Timestamp> {
        if self.waiting.is_empty() {
            return None;
        }
        self.until.or_else(|| self.keys_until.values().min().copied())
    }

    pub(super) fn push(&mut self, started: Box<StartedAttempt>) {
        self.waiting.push_back(WaitingDelivery { started, has_key_start: false });
    }

    /// Removes all waiting messages, to be released.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Box<StartedAttempt>> {
        std::mem::take(&mut self.waiting).into_iter().map(|waiting| waiting.started)
    }

    /// Removes up to `room` messages that may start, in their order.
    pub(super) async fn ready(&mut self, room: usize, now: Timestamp) -> Vec<ReadyDelivery> {
        let mut ready = Vec::new();
        if self.until.is_some_and(|until| now < until) {
            return ready;
        }
        self.until = None;
        self.keys_until.retain(|_, until| *until > now);
        let mut blocked = self.keys_until.keys().cloned().collect();
        for mut delivery in std::mem::take(&mut self.waiting) {
            // Another process may have it by now.
            if delivery.started.context.cancel_cause() == Some(CancelCause::LeaseLost) {
                continue;
            }
            if self.until.is_some() || ready.len() >= room {
                self.waiting.push_back(delivery);
                continue;
            }
            match self.may_start(&mut delivery, &mut blocked, now).await {
                StartDecision::Start(guard) => ready.push((delivery.started, guard)),
                StartDecision::WaitForKey | StartDecision::WaitForAll => {
                    self.waiting.push_back(delivery);
                }
            }
        }
        ready
    }

    async fn may_start(
        &mut self,
        delivery: &mut WaitingDelivery,
        blocked: &mut BTreeSet<Key>,
        now: Timestamp,
    ) -> StartDecision {
        let receive_options = &self.spec.receive_options;
        let (rate, key_rate) = (receive_options.rate, receive_options.key_rate);
        let key_concurrency = receive_options.key_concurrency;
        let key = delivery.started.received.message.key.clone();
        if let Some(key) = &key {
            let full = key_concurrency.is_some_and(|limit| self.running(key) >= limit);
            if blocked.contains(key) || full {
                blocked.insert(key.clone());
                return StartDecision::WaitForKey;
            }
            if let Some(rate) = key_rate.filter(|_| !delivery.has_key_start) {
                let name = Key::composed(format!("{}/{key}", self.name));
                if let Some(until) = self.rate_used_until(name, rate, now).await {
                    self.keys_until.insert(key.clone(), until);
                    blocked.insert(key.clone());
                    return StartDecision::WaitForKey;
                }
                delivery.has_key_start = true;
            }
        }
        if let Some(rate) = rate
            && let Some(until) = self.rate_used_until(self.name.clone(), rate, now).await
        {
            self.until = Some(until);
            return StartDecision::WaitForAll;
        }
        let counted = key.filter(|_| key_concurrency.is_some());
        StartDecision::Start(counted.map(|key| KeyGuard::new(self.running.clone(), key)))
    }

    fn running(&self, key: &Key) -> usize {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.get(key).copied().unwrap_or_default()
    }

    /// Returns when a rate allows the next start; `None` when it has granted one now.
    async fn rate_used_until(&self, name: Key, rate: Rate, now: Timestamp) -> Option<Timestamp> {
        let grant = acquire(&self.process, RateRequest { name, rate, requested: 1 }, now).await;
        (grant.granted == 0).then_some(grant.next_at)
    }
}

/// Guard that counts a message of a key as running until it is dropped.
pub(super) struct KeyGuard {
    running: Running,
    key: Key,
}

impl KeyGuard {
    fn new(running: Running, key: Key) -> Self {
        *running.lock().unwrap_or_else(PoisonError::into_inner).entry(key.clone()).or_default() +=
            1;
        Self { running, key }
    }
}

impl Drop for KeyGuard {
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
