//! Group cache: the groups that receive a copy of a message. The storage stores them; a process caches the list
//! for a second, so that publishing does not read it each time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use crate::error::Result;
use crate::model::GROUP_DEFAULT;
use crate::model::Topic;
use crate::model::time::between;
use crate::storage::Storage;

/// How long the cached list is used.
const CACHE_DURATION: Duration = Duration::from_secs(1);

/// The groups as the storage last returned them.
#[derive(Default)]
pub(super) struct GroupCache(Mutex<CachedGroups>);

#[derive(Default)]
struct CachedGroups {
    /// Sorted groups of each topic. Limited like the list of the storage.
    topics: BTreeMap<Topic, Vec<Arc<str>>>,
    at: Option<Timestamp>,
}

impl GroupCache {
    /// Registers a group for a topic.
    pub(super) async fn register(
        &self,
        storage: &dyn Storage,
        topic: &Topic,
        group: &str,
        now: Timestamp,
    ) -> Result<()> {
        storage.register_group(topic, group, now).await?;
        self.lock().add(topic.clone(), group);
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
        if let Some(known) = self.lock().of(topic, now) {
            return Ok(known);
        }
        let groups = storage.groups().await?;
        let mut cached = self.lock();
        // Added to the known groups instead of replacing them: a group may have been registered meanwhile, and
        // groups are never removed.
        for (topic, group) in groups {
            cached.add(topic, &group);
        }
        cached.at = Some(now);
        Ok(cached.of(topic, now).unwrap_or_else(|| vec![Arc::from(GROUP_DEFAULT)]))
    }

    fn lock(&self) -> MutexGuard<'_, CachedGroups> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CachedGroups {
    fn add(&mut self, topic: Topic, group: &str) {
        let groups = self.topics.entry(topic).or_default();
        if let Err(index) = groups.binary_search_by(|known| (**known).cmp(group)) {
            groups.insert(index, Arc::from(group));
        }
    }

    /// Returns the known groups of a topic while the list is fresh.
    fn of(&self, topic: &Topic, now: Timestamp) -> Option<Vec<Arc<str>>> {
        let is_fresh = |at: Timestamp| at <= now && between(at, now) < CACHE_DURATION;
        self.topics.get(topic).filter(|_| self.at.is_some_and(is_fresh)).cloned()
    }
}
