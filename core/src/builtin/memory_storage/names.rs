//! By which names alive messages can be found: deduplication key, topic and key, job, batch. Only alive
//! messages are in here, and only those that carry such a name; and beside them the deduplication keys
//! that keep others out for a time.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::clock::add;
use crate::model::{BatchId, JobName, Key, Message, MessageId, Topic, Unique};

/// How many keys whose time is over are forgotten at once.
const FORGOTTEN_MAX: usize = 16;

/// The names under which messages are alive.
#[derive(Default)]
pub(super) struct Names {
    dedupe: BTreeMap<Key, MessageId>,
    held: BTreeMap<Key, (Timestamp, MessageId)>,
    held_until: BTreeSet<(Timestamp, Key)>,
    about: BTreeMap<(Topic, Key), BTreeSet<MessageId>>,
    jobs: BTreeMap<JobName, BTreeSet<MessageId>>,
    batches: BTreeMap<BatchId, BTreeSet<MessageId>>,
    /// Who waits for a batch.
    waiting: BTreeMap<BatchId, BTreeSet<MessageId>>,
    /// Batches of which no message is alive any more.
    ended: Vec<BatchId>,
}

impl Names {
    /// A message became alive.
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

    /// A message is no longer alive. A newer one under the same names stays.
    pub(super) fn remove(&mut self, message: &Message) {
        self.free(message);
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

    /// A message gives its deduplication key free.
    pub(super) fn free(&mut self, message: &Message) {
        if let Some(dedupe) = &message.dedupe
            && self.dedupe.get(dedupe) == Some(&message.id)
        {
            self.dedupe.remove(dedupe);
        }
    }

    /// A message that was accepted now keeps others out for a time, if it says so.
    pub(super) fn hold(&mut self, message: &Message, now: Timestamp) {
        let (Unique::For(period), Some(key)) = (message.unique(), &message.dedupe) else { return };
        let until = add(now, period);
        if let Some((before, _)) = self.held.insert(key.clone(), (until, message.id)) {
            self.held_until.remove(&(before, key.clone()));
        }
        self.held_until.insert((until, key.clone()));
        for _ in 0..FORGOTTEN_MAX {
            match self.held_until.pop_first() {
                Some((until, key)) if until <= now => drop(self.held.remove(&key)),
                Some(first) => {
                    self.held_until.insert(first);
                    break;
                }
                None => break,
            }
        }
    }

    /// The alive message with the deduplication key of another one.
    pub(super) fn twin(&self, message: &Message) -> Option<MessageId> {
        message.dedupe.as_ref().and_then(|dedupe| self.dedupe.get(dedupe)).copied()
    }

    /// The message whose deduplication key keeps this one out for a time.
    pub(super) fn holder(&self, message: &Message, now: Timestamp) -> Option<MessageId> {
        let held = self.held.get(message.dedupe.as_ref()?);
        held.filter(|(until, _)| *until > now).map(|(_, id)| *id)
    }

    /// Whether a message has to wait for a batch; noted if so.
    pub(super) fn has_to_wait(&mut self, message: &Message) -> bool {
        let Some(batch) = message.waits_for().filter(|batch| self.batches.contains_key(batch))
        else {
            return false;
        };
        self.waiting.entry(batch).or_default().insert(message.id)
    }

    /// Those that waited for batches which have ended since the last time.
    pub(super) fn take_freed(&mut self) -> Vec<MessageId> {
        let mut freed = Vec::new();
        for batch in std::mem::take(&mut self.ended) {
            if !self.batches.contains_key(&batch) {
                freed.extend(self.waiting.remove(&batch).into_iter().flatten());
            }
        }
        freed
    }

    /// The alive messages of a topic that are about a key, oldest id first.
    pub(super) fn about(&self, topic: &Topic, key: &Key) -> Vec<MessageId> {
        let found = self.about.get(&(topic.clone(), key.clone()));
        found.into_iter().flatten().copied().collect()
    }

    /// The alive messages of every job, job after job.
    pub(super) fn of_jobs(&self) -> impl Iterator<Item = MessageId> {
        self.jobs.values().flatten().copied()
    }

    /// The alive messages of a job, oldest id first.
    pub(super) fn of_job(&self, job: &JobName) -> Vec<MessageId> {
        self.jobs.get(job).into_iter().flatten().copied().collect()
    }
}

/// Takes an id from a name; answers whether it was the last one.
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
