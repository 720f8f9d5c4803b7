//! Groups of a topic, read from the names of the existing queues: a published message is copied to each group.
//! The cache expires soon, and the first subscription of a group waits that long before it begins, so that no
//! publisher misses the group.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use punctual::Result;
use punctual::clock::add;
use punctual::jiff::Timestamp;
use punctual::model::Topic;

use crate::connection::BrokerConnection;
use crate::names::{Names, name_of};
use crate::topology::list_queues;

/// Most topics in the cache.
const TOPICS_MAX: usize = 10_000;

/// Group and the URL of its queue.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) queue: String,
}

/// Cache of the groups of topics.
#[derive(Debug)]
pub(crate) struct GroupCache {
    /// Time after which the groups of a topic are read again.
    pub(crate) retention: Duration,
    cached: Mutex<HashMap<Topic, CachedGroups>>,
}

#[derive(Debug)]
struct CachedGroups {
    read_at: Timestamp,
    groups: Arc<[Group]>,
}

impl GroupCache {
    pub(crate) fn new(retention: Duration) -> Self {
        Self { retention, cached: Mutex::default() }
    }

    /// Returns the groups of a topic.
    pub(crate) async fn of(
        &self,
        connection: &BrokerConnection,
        names: &Names,
        topic: &Topic,
        now: Timestamp,
    ) -> Result<Arc<[Group]>> {
        if let Some(groups) = self.fresh(topic, now) {
            return Ok(groups);
        }
        let urls = list_queues(connection, &names.of_topic(topic)).await?;
        let groups: Arc<[Group]> = urls
            .into_iter()
            .filter_map(|queue| {
                let (found, name) = names.parse(name_of(&queue))?;
                (found == *topic).then_some(Group { name, queue })
            })
            .collect();
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        if cached.len() >= TOPICS_MAX {
            cached.clear();
        }
        cached.insert(topic.clone(), CachedGroups { read_at: now, groups: groups.clone() });
        Ok(groups)
    }

    /// Removes a topic from the cache.
    pub(crate) fn forget(&self, topic: &Topic) {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner).remove(topic);
    }

    fn fresh(&self, topic: &Topic, now: Timestamp) -> Option<Arc<[Group]>> {
        let cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        let cached = cached.get(topic)?;
        let is_fresh = cached.read_at <= now && now < add(cached.read_at, self.retention);
        is_fresh.then(|| cached.groups.clone())
    }
}
