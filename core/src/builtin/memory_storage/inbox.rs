//! Inbox: the deliveries that a group has handled. Limited; the oldest record is removed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use crate::inbox::InboxResult;
use crate::model::MessageId;

type RecordKey = (Arc<str>, MessageId);

/// Records, and the order they were made in.
#[derive(Default)]
pub(super) struct InboxRecords {
    recorded_at: BTreeMap<RecordKey, Timestamp>,
    oldest: BTreeSet<(Timestamp, RecordKey)>,
}

impl InboxRecords {
    pub(super) fn contains(&self, group: &str, message: MessageId) -> bool {
        self.recorded_at.contains_key(&(Arc::from(group), message))
    }

    pub(super) fn admit(
        &mut self,
        group: &str,
        message: MessageId,
        now: Timestamp,
        count_max: usize,
    ) -> InboxResult {
        let record = (Arc::from(group), message);
        if self.recorded_at.contains_key(&record) {
            return InboxResult::Again;
        }
        self.recorded_at.insert(record.clone(), now);
        self.oldest.insert((now, record));
        while self.recorded_at.len() > count_max {
            self.forget_oldest();
        }
        InboxResult::First
    }

    pub(super) fn forget(&mut self, before: Timestamp, limit: usize) -> u64 {
        let mut count = 0;
        while count < limit
            && self.oldest.first().is_some_and(|(recorded_at, _)| *recorded_at < before)
        {
            self.forget_oldest();
            count += 1;
        }
        count as u64
    }

    fn forget_oldest(&mut self) {
        if let Some((_, record)) = self.oldest.pop_first() {
            self.recorded_at.remove(&record);
        }
    }
}
