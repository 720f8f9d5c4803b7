//! Group cache: which groups receive a copy of a message. The storage knows; a process caches the list for a
//! second, so that publishing does not read it each time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use super::GROUP_DEFAULT;
use crate::clock::between;
use crate::error::Result;
use crate::model::Topic;
use crate::storage::Storage;

/// How long a list that was read is used.
const BELIEVED_FOR: Duration = Duration::from_secs(1);

/// The groups as the storage last returned them.
#[derive(Default)]
pub(super) struct Groups(Mutex<Told>);

#[derive(Default)]
struct Told {
    /// Sorted. Bounded like the storage's own list.
    topics: BTreeMap<Topic, Vec<Arc<str>>>,
    at: Option<Timestamp>,
}

impl Groups {
    /// Registers a group for a topic.
    pub(super) async fn join(
        &self,
        storage: &dyn Storage,
        topic: &Topic,
        group: &str,
        now: Timestamp,
    ) -> Result<()> {
        storage.register_group(topic, group, now).await?;
        self.told().add(topic.clone(), group);
        Ok(())
    }

    /// Returns the groups that receive a message of a topic. A topic without groups is read each time, so that
    /// the first group misses nothing.
    pub(super) async fn of(
        &self,
        storage: &dyn Storage,
        topic: &Topic,
        now: Timestamp,
    ) -> Result<Vec<Arc<str>>> {
        if let Some(known) = self.told().of(topic, now) {
            return Ok(known);
        }
        let groups = storage.groups().await?;
        let mut told = self.told();
        // Added to the known groups instead of replacing them: a group may have joined meanwhile, and none
        // ever leaves.
        for (topic, group) in groups {
            told.add(topic, &group);
        }
        told.at = Some(now);
        Ok(told.of(topic, now).unwrap_or_else(|| vec![Arc::from(GROUP_DEFAULT)]))
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Told {
    fn add(&mut self, topic: Topic, group: &str) {
        let groups = self.topics.entry(topic).or_default();
        if let Err(place) = groups.binary_search_by(|known| (**known).cmp(group)) {
            groups.insert(place, Arc::from(group));
        }
    }

    /// Returns the known groups of a topic while the copy is fresh.
    fn of(&self, topic: &Topic, now: Timestamp) -> Option<Vec<Arc<str>>> {
        let is_believed = |at: Timestamp| at <= now && between(at, now) < BELIEVED_FOR;
        self.topics.get(topic).filter(|_| self.at.is_some_and(is_believed)).cloned()
    }
}
