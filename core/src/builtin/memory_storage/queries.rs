//! Queries of messages for people: pages, one message, counts. Nothing here changes anything.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;

use super::memory::Memory;
use super::queue_index::QueueIndex;
use super::records::StoredRecord;
use crate::inspect::{Counts, MessageFilter, PageRequest, PageResult};
use crate::model::{BatchId, MessageId, MessageRecord, MessageState};

impl Memory {
    pub(super) fn message(&self, id: MessageId) -> Option<MessageRecord> {
        self.records.get(id).map(|stored| stored.record.clone())
    }

    pub(super) fn page_of_messages(
        &self,
        filter: &MessageFilter,
        page: PageRequest<MessageId>,
    ) -> PageResult<MessageRecord, MessageId> {
        let all = |is_wanted: fn(&MessageState) -> bool| {
            !filter.states.is_empty() && filter.states.iter().all(is_wanted)
        };
        // Pages of dead letters and of jobs must not scan millions of pending messages.
        if all(|state| !state.is_alive()) {
            let ended = self.index.ended().filter_map(|slot| self.records.at(slot));
            paged(newest_first(ended, page).into_iter(), filter, page)
        } else if filter.planned && all(|state| state.is_alive()) {
            let of_jobs = self.lookup.of_jobs().filter_map(|id| self.records.get(id));
            paged(newest_first(of_jobs, page).into_iter(), filter, page)
        } else {
            paged(self.records.below(page.after), filter, page)
        }
    }

    pub(super) fn batch(&self, batch: BatchId) -> BTreeMap<MessageState, u64> {
        let members = self.records.below(None).filter(|one| one.message.batch() == Some(batch));
        members.fold(BTreeMap::new(), |mut counts, record| {
            *counts.entry(record.state).or_default() += 1;
            counts
        })
    }

    pub(super) fn counts(&self, now: Timestamp) -> Counts {
        let queues = self.index.queues();
        let waiting = self.index.blocked.waiting().filter_map(|slot| self.records.at(slot));
        Counts {
            messages: queues.iter().flat_map(QueueIndex::counts).collect(),
            stale: self.index.leases.lapsed_count(now) as u64,
            oldest_due: queues
                .iter()
                .filter_map(QueueIndex::next_due)
                .chain(waiting.map(|stored| stored.record.due_at))
                .min()
                .filter(|due_at| *due_at <= now),
            is_estimate: false,
        }
    }
}

/// Returns the records after the start of a page, newest id first.
fn newest_first<'a>(
    stored: impl Iterator<Item = &'a StoredRecord>,
    page: PageRequest<MessageId>,
) -> Vec<&'a MessageRecord> {
    let mut records: Vec<&MessageRecord> = stored.map(|stored| &stored.record).collect();
    records.retain(|record| page.after.is_none_or(|after| record.message.id < after));
    records.sort_unstable_by_key(|record| Reverse(record.message.id));
    records
}

/// Returns the first rows that match, and where the next page starts.
fn paged<'a>(
    records: impl Iterator<Item = &'a MessageRecord>,
    filter: &MessageFilter,
    page: PageRequest<MessageId>,
) -> PageResult<MessageRecord, MessageId> {
    let mut found = records.filter(|record| matches(filter, record));
    let rows: Vec<MessageRecord> = found.by_ref().take(page.bounded()).cloned().collect();
    let more = found.next().is_some();
    PageResult { next: rows.last().filter(|_| more).map(|row| row.message.id), rows }
}

fn matches(filter: &MessageFilter, record: &MessageRecord) -> bool {
    let MessageFilter { states, queue, topic, key, job, batch, planned } = filter;
    let message = &record.message;
    let of_job = message.occurrence.as_ref().map(|occurrence| &occurrence.job);
    is_wanted(states, record.state)
        && queue.as_ref().is_none_or(|queue| message.queue == *queue)
        && topic.as_ref().is_none_or(|topic| message.topic == *topic)
        && key.as_ref().is_none_or(|key| message.key.as_ref() == Some(key))
        && job.as_ref().is_none_or(|job| of_job == Some(job))
        && batch.is_none_or(|batch| message.batch() == Some(batch))
        && (!planned || record.is_planned())
}

fn is_wanted(states: &[MessageState], state: MessageState) -> bool {
    states.is_empty() || states.contains(&state)
}
