//! Groups: the subscribed groups of each topic.

use std::collections::BTreeSet;

use crate::error::Result;
use crate::model::Topic;
use crate::storage::{GROUPS_MAX, too_many_groups};

/// Topics and their groups, in order.
#[derive(Default)]
pub(super) struct Groups {
    known: BTreeSet<(Topic, String)>,
}

impl Groups {
    pub(super) fn register(&mut self, topic: &Topic, group: &str) -> Result<()> {
        let registration = (topic.clone(), group.to_owned());
        if self.known.len() >= GROUPS_MAX && !self.known.contains(&registration) {
            return Err(too_many_groups(topic, group));
        }
        self.known.insert(registration);
        Ok(())
    }

    pub(super) fn list(&self) -> Vec<(Topic, String)> {
        self.known.iter().cloned().collect()
    }
}
