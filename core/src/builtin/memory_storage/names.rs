//! By which names alive messages can be found: deduplication key, topic and key, job. Only alive
//! messages are in here, and only those that carry such a name.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{JobName, Key, Message, MessageId, Topic};

/// The names under which messages are alive.
#[derive(Default)]
pub(super) struct Names {
    dedupe: BTreeMap<Key, MessageId>,
    about: BTreeMap<(Topic, Key), BTreeSet<MessageId>>,
    jobs: BTreeMap<JobName, BTreeSet<MessageId>>,
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
    }

    /// A message is no longer alive. A newer one under the same names stays.
    pub(super) fn remove(&mut self, message: &Message) {
        if let Some(dedupe) = &message.dedupe
            && self.dedupe.get(dedupe) == Some(&message.id)
        {
            self.dedupe.remove(dedupe);
        }
        if let Some(key) = &message.key {
            remove_from(&mut self.about, &(message.topic.clone(), key.clone()), message.id);
        }
        if let Some(occurrence) = &message.occurrence {
            remove_from(&mut self.jobs, &occurrence.job, message.id);
        }
    }

    /// The alive message with the deduplication key of another one.
    pub(super) fn twin(&self, message: &Message) -> Option<MessageId> {
        message.dedupe.as_ref().and_then(|dedupe| self.dedupe.get(dedupe)).copied()
    }

    /// The alive messages of a topic that are about a key, oldest id first.
    pub(super) fn about(&self, topic: &Topic, key: &Key) -> Vec<MessageId> {
        let found = self.about.get(&(topic.clone(), key.clone()));
        found.into_iter().flatten().copied().collect()
    }

    /// The alive messages of a job, oldest id first.
    pub(super) fn of_job(&self, job: &JobName) -> Vec<MessageId> {
        self.jobs.get(job).into_iter().flatten().copied().collect()
    }

    /// How many messages of a job are alive.
    pub(super) fn alive(&self, job: &JobName) -> u32 {
        self.jobs.get(job).map_or(0, |ids| u32::try_from(ids.len()).unwrap_or(u32::MAX))
    }
}

fn remove_from<N: Ord>(map: &mut BTreeMap<N, BTreeSet<MessageId>>, name: &N, id: MessageId) {
    if let Some(ids) = map.get_mut(name) {
        ids.remove(&id);
        if ids.is_empty() {
            map.remove(name);
        }
    }
}
