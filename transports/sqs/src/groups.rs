//! The groups of a topic, as the queues that are there tell: what is published is copied to each. What is
//! known is read again soon, and a new group is given that long before its subscription begins, so that no
//! publisher misses it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use punctual::Result;
use punctual::clock::add;
use punctual::jiff::Timestamp;
use punctual::model::Topic;

use crate::link::Link;
use crate::names::{Names, name_of};
use crate::topology::list;

/// The most topics that are remembered.
const TOPICS_MAX: usize = 10_000;

/// A group and the address of its queue.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) queue: String,
}

/// Remembers groups for a while.
#[derive(Debug)]
pub(crate) struct Groups {
    /// For so long.
    pub(crate) kept_for: Duration,
    known: Mutex<HashMap<Topic, Known>>,
}

#[derive(Debug)]
struct Known {
    read_at: Timestamp,
    groups: Arc<[Group]>,
}

impl Groups {
    pub(crate) fn new(kept_for: Duration) -> Self {
        Self { kept_for, known: Mutex::default() }
    }

    /// The groups of a topic.
    pub(crate) async fn of(
        &self,
        link: &Link,
        names: &Names,
        topic: &Topic,
        now: Timestamp,
    ) -> Result<Arc<[Group]>> {
        if let Some(groups) = self.fresh(topic, now) {
            return Ok(groups);
        }
        let urls = list(link, &names.of_topic(topic)).await?;
        let groups: Arc<[Group]> = urls
            .into_iter()
            .filter_map(|queue| {
                let (found, name) = names.read(name_of(&queue))?;
                (found == *topic).then_some(Group { name, queue })
            })
            .collect();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= TOPICS_MAX {
            known.clear();
        }
        known.insert(topic.clone(), Known { read_at: now, groups: groups.clone() });
        Ok(groups)
    }

    /// Reads the groups of a topic again the next time.
    pub(crate) fn forget(&self, topic: &Topic) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(topic);
    }

    fn fresh(&self, topic: &Topic, now: Timestamp) -> Option<Arc<[Group]>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get(topic)?;
        let is_fresh = known.read_at <= now && now < add(known.read_at, self.kept_for);
        is_fresh.then(|| known.groups.clone())
    }
}
