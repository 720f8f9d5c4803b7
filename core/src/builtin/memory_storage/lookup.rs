//! Lookup of alive messages by deduplication key, by topic and key, by job and by batch; and the deduplication
//! keys that stay reserved for a time.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::model::time::add;
use crate::model::{BatchId, JobName, Key, Message, MessageId, Topic, Unique};

/// Number of expired keys removed per call.
const EXPIRED_MAX: usize = 16;

/// Ids of alive messages by name.
#[derive(Default)]
pub(super) struct Lookup {
    dedupe: BTreeMap<Key, MessageId>,
    reserved: BTreeMap<Key, (Timestamp, MessageId)>,
    reserved_until: BTreeSet<(Timestamp, Key)>,
    about: BTreeMap<(Topic, Key), BTreeSet<MessageId>>,
    jobs: BTreeMap<JobName, BTreeSet<MessageId>>,
    batches: BTreeMap<BatchId, BTreeSet<MessageId>>,
    /// Messages that wait for the end of a batch.
    waiting: BTreeMap<BatchId, BTreeSet<MessageId>>,
    /// Batches whose last alive message has ended.
    ended: Vec<BatchId>,
}

impl Lookup {
    /// Adds a message that became alive.
    pub(super) fn insert(&mut self, message: &Message) {
        if let Some(dedupe) = &message.dedupe {
            self.dedupe.insert(dedupe.clone(), message.id);
        }
        if let Some(key) = &message.key {
            let about = (message.topic.clone(), key.clone());
            self.about.entry(about).or_default().insert(message.id);
        }
        if let Some(occurrence) = &message.occurrence {
            self.jobs.entry(occurrence.job.clone()).or_default().insert(message.id);
        }
        if let Some(batch) = message.batch() {
            self.batches.entry(batch).or_default().insert(message.id);
        }
    }

    /// Removes a message that is no longer alive. A newer one under the same names stays.
    pub(super) fn remove(&mut self, message: &Message) {
        self.free_key(message);
        if let Some(key) = &message.key {
            remove_from(&mut self.about, &(message.topic.clone(), key.clone()), message.id);
        }
        if let Some(occurrence) = &message.occurrence {
            remove_from(&mut self.jobs, &occurrence.job, message.id);
        }
        if let Some(batch) = message.batch()
            && remove_from(&mut self.batches, &batch, message.id)
        {
            self.ended.push(batch);
        }
        if let Some(batch) = message.waits_for() {
            remove_from(&mut self.waiting, &batch, message.id);
        }
    }

    /// Frees the deduplication key of a message.
    pub(super) fn free_key(&mut self, message: &Message) {
        if let Some(dedupe) = &message.dedupe
            && self.dedupe.get(dedupe) == Some(&message.id)
        {
            self.dedupe.remove(dedupe);
        }
    }

    /// Reserves the deduplication key of a message accepted now for the duration that it requests.
    pub(super) fn reserve_key(&mut self, message: &Message, now: Timestamp) {
        let (Unique::For(period), Some(key)) = (message.unique(), &message.dedupe) else { return };
        let until = add(now, period);
        if let Some((before, _)) = self.reserved.insert(key.clone(), (until, message.id)) {
            self.reserved_until.remove(&(before, key.clone()));
        }
        self.reserved_until.insert((until, key.clone()));
        for _ in 0..EXPIRED_MAX {
            match self.reserved_until.pop_first() {
                Some((until, key)) if until <= now => drop(self.reserved.remove(&key)),
                Some(first) => {
                    self.reserved_until.insert(first);
                    break;
                }
                None => break,
            }
        }
    }

    /// Returns the alive message with the deduplication key of another one.
    pub(super) fn alive_duplicate(&self, message: &Message) -> Option<MessageId> {
        message.dedupe.as_ref().and_then(|dedupe| self.dedupe.get(dedupe)).copied()
    }

    /// Returns the message for which the deduplication key of this one is reserved.
    pub(super) fn key_owner(&self, message: &Message, now: Timestamp) -> Option<MessageId> {
        let reserved = self.reserved.get(message.dedupe.as_ref()?);
        reserved.filter(|(until, _)| *until > now).map(|(_, id)| *id)
    }

    /// Returns whether a message has to wait for a batch, and adds it to those that wait.
    pub(super) fn waits_for_batch(&mut self, message: &Message) -> bool {
        let Some(batch) = message.waits_for().filter(|batch| self.batches.contains_key(batch))
        else {
            return false;
        };
        self.waiting.entry(batch).or_default().insert(message.id)
    }

    /// Takes the messages that waited for batches which have ended since the last call.
    pub(super) fn take_batch_waiters(&mut self) -> Vec<MessageId> {
        let mut waiters = Vec::new();
        for batch in std::mem::take(&mut self.ended) {
            if !self.batches.contains_key(&batch) {
                waiters.extend(self.waiting.remove(&batch).into_iter().flatten());
            }
        }
        waiters
    }

    /// Returns the alive messages of a topic with a key, oldest id first.
    pub(super) fn about(&self, topic: &Topic, key: &Key) -> Vec<MessageId> {
        let found = self.about.get(&(topic.clone(), key.clone()));
        found.into_iter().flatten().copied().collect()
    }

    /// Returns the alive messages of every job, job after job.
    pub(super) fn of_jobs(&self) -> impl Iterator<Item = MessageId> {
        self.jobs.values().flatten().copied()
    }

    /// Returns the alive messages of a job, oldest id first.
    pub(super) fn of_job(&self, job: &JobName) -> Vec<MessageId> {
        self.jobs.get(job).into_iter().flatten().copied().collect()
    }
}

/// Removes an id from a name; returns whether it was the last one.
fn remove_from<N: Ord>(
    map: &mut BTreeMap<N, BTreeSet<MessageId>>,
    name: &N,
    id: MessageId,
) -> bool {
    let Some(ids) = map.get_mut(name) else { return false };
    ids.remove(&id);
    let is_empty = ids.is_empty();
    if is_empty {
        map.remove(name);
    }
    is_empty
}
