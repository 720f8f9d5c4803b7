//! Which deliveries a group has dealt with. Bounded; the oldest note falls out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use crate::inbox::InboxResult;
use crate::model::MessageId;

type Note = (Arc<str>, MessageId);

/// The notes, and the order they were made in.
#[derive(Default)]
pub(super) struct Notes {
    noted_at: BTreeMap<Note, Timestamp>,
    oldest: BTreeSet<(Timestamp, Note)>,
}

impl Notes {
    pub(super) fn has(&self, group: &str, message: MessageId) -> bool {
        self.noted_at.contains_key(&(Arc::from(group), message))
    }

    pub(super) fn admit(
        &mut self,
        group: &str,
        message: MessageId,
        now: Timestamp,
        count_max: usize,
    ) -> InboxResult {
        let note = (Arc::from(group), message);
        if self.noted_at.contains_key(&note) {
            return InboxResult::Again;
        }
        self.noted_at.insert(note.clone(), now);
        self.oldest.insert((now, note));
        while self.noted_at.len() > count_max {
            self.forget_oldest();
        }
        InboxResult::First
    }

    pub(super) fn forget(&mut self, before: Timestamp, limit: usize) -> u64 {
        let mut count = 0;
        while count < limit && self.oldest.first().is_some_and(|(noted_at, _)| *noted_at < before) {
            self.forget_oldest();
            count += 1;
        }
        count as u64
    }

    fn forget_oldest(&mut self) {
        if let Some((_, note)) = self.oldest.pop_first() {
            self.noted_at.remove(&note);
        }
    }
}
