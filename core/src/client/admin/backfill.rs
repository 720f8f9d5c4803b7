//! Backfill: creates messages for occurrences of the past, each with its nominal time, without changing the
//! schedule. The id of a message is derived from job, nominal time and label, so that a repeated backfill stores
//! nothing twice until the messages are pruned.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::Admin;
use crate::analysis::{Walk, just_before};
use crate::engine::occurrence_message;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::inspect::{MessageFilter, PAGE_LIMIT_MAX, PageRequest};
use crate::model::time::{add, subtract};
use crate::model::{JobRecord, Message, MessageId, Occurrence, Source};
use crate::schedule::stable_hash;
use crate::storage::{EnqueueResult, Entry};

/// The most occurrences in the range of one backfill.
const OCCURRENCES_MAX: usize = 100_000;

/// The most messages that one backfill may store.
const MESSAGES_MAX: usize = 10_000;
/// Number of messages that are stored in one step.
const STEP: usize = 500;
/// The most pages of messages that are searched for occurrences that have run.
const PAGES_MAX: usize = 100;
/// Largest clock difference between processes when messages are compared by their creation time.
const SKEW_MAX: Duration = Duration::from_secs(60);

/// Options of a backfill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backfill {
    /// Whether only the result is computed and nothing is stored. Default false.
    pub dry_run: bool,
    /// The most runs; further occurrences are left out. Default 100.
    pub max: usize,
    /// Order of the runs, which also decides the occurrences that are left out. Default oldest first.
    pub order: BackfillOrder,
    /// The occurrences to run. Default those that never ran.
    pub which: BackfillSelection,
    /// Distinguishes backfills of the same range: under one label an occurrence runs once, under another label
    /// again. Default empty.
    pub label: String,
}

impl Default for Backfill {
    fn default() -> Self {
        Self {
            dry_run: false,
            max: 100,
            order: BackfillOrder::OldestFirst,
            which: BackfillSelection::Missing,
            label: String::new(),
        }
    }
}

/// Order in which a backfill runs occurrences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackfillOrder {
    /// The oldest occurrence first.
    OldestFirst,
    /// The newest occurrence first.
    NewestFirst,
}

/// The occurrences of a range that a backfill runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackfillSelection {
    /// Occurrences without a message: skipped, missed, before the job was declared, or pruned.
    Missing,
    /// All occurrences, also those that have run.
    All,
}

/// The result of a backfill or of a dry run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackfillResult {
    /// Nominal times of the occurrences to run, in the order of the runs.
    pub nominals: Vec<Timestamp>,
    /// Messages that were stored; empty in a dry run.
    pub stored: Vec<MessageId>,
    /// Number of messages that were not stored because they exist.
    pub duplicates: u64,
    /// Number of occurrences of the range that were left out because they have run.
    pub present: u64,
    /// Whether the range contains more occurrences than [`Backfill::max`].
    pub more: bool,
}

impl Admin {
    /// Runs the occurrences of a job from an instant on and before another one, each with its nominal time and
    /// the current definition of the job. Paused jobs can be backfilled. Occurrences at or after the cursor of
    /// an active job are left to its schedule. Runs wait for each other unless the job allows overlaps, and
    /// the job's overlap policy counts them while they are alive.
    pub async fn backfill(
        &self,
        job: impl AsRef<str>,
        from: Timestamp,
        to: Timestamp,
        backfill: &Backfill,
    ) -> Result<BackfillResult> {
        let record = Arc::new(self.job(job).await?);
        let now = self.process.now();
        check(backfill, (from, to), now)?;
        let shared = record.clone();
        let mut nominals = self.walk(move |walk| occurrences(walk, &shared, from, to)).await??;
        let before = nominals.len();
        if backfill.which == BackfillSelection::Missing && before > 0 {
            let present = self.present(&record, from).await?;
            nominals.retain(|nominal| !present.contains(nominal));
        }
        let present = (before - nominals.len()) as u64;
        if backfill.order == BackfillOrder::NewestFirst {
            nominals.reverse();
        }
        let more = nominals.len() > backfill.max;
        nominals.truncate(backfill.max);
        let mut result = BackfillResult { nominals, present, more, ..BackfillResult::default() };
        if !backfill.dry_run {
            self.store(&record, &backfill.label, &mut result).await?;
        }
        Ok(result)
    }

    /// Returns the nominal times since an instant that have a message.
    async fn present(&self, record: &JobRecord, from: Timestamp) -> Result<BTreeSet<Timestamp>> {
        let name = &record.job.name;
        let filter = MessageFilter { job: Some(name.clone()), ..MessageFilter::default() };
        let mut page = PageRequest::first(PAGE_LIMIT_MAX);
        let mut present = BTreeSet::new();
        for _ in 0..PAGES_MAX {
            let paged = self.messages(filter.clone(), page).await?;
            let messages = paged.rows.iter().map(|record| &record.message);
            present
                .extend(messages.filter_map(|message| Some(message.occurrence.as_ref()?.nominal)));
            // A message is never older than its occurrence, and ids are ordered by age.
            let all_older = paged
                .rows
                .last()
                .is_some_and(|last| last.message.created_at < subtract(from, SKEW_MAX));
            match paged.next {
                Some(next) if !all_older => page = PageRequest::after(next, PAGE_LIMIT_MAX),
                _ => return Ok(present),
            }
        }
        Err(Error::invalid(format!(
            "the job {name:?} has too many messages since {from} to find the occurrences that have run; begin later, or backfill all of them"
        )))
    }

    async fn store(
        &self,
        record: &JobRecord,
        label: &str,
        result: &mut BackfillResult,
    ) -> Result<()> {
        let now = self.process.now();
        let mut due_at = now;
        for step in result.nominals.chunks(STEP) {
            let mut entries = Vec::with_capacity(step.len());
            for nominal in step {
                entries.push(self.entry(record, label, *nominal, due_at));
                // Different due times keep the requested order.
                due_at = add(due_at, Duration::from_micros(1));
            }
            let messages: Vec<Arc<Message>> =
                entries.iter().map(|entry| entry.message.clone()).collect();
            let stored = self.process.env.storage.enqueue(entries, now).await?;
            for (message, stored) in messages.into_iter().zip(stored) {
                if let EnqueueResult::Duplicate(_) = stored {
                    result.duplicates += 1;
                    continue;
                }
                result.stored.push(message.id);
                self.process.env.events.emit(Event::MessageEnqueued {
                    message: message.id,
                    topic: message.topic.clone(),
                    queue: message.queue.clone(),
                    due_at: message.due_at,
                });
            }
        }
        let job = record.job.name.clone();
        self.process.env.events.emit(Event::JobChanged { job, change: "backfilled" });
        Ok(())
    }

    fn entry(
        &self,
        record: &JobRecord,
        label: &str,
        nominal: Timestamp,
        due_at: Timestamp,
    ) -> Entry {
        let job = &record.job;
        let message = occurrence_message(&self.process, job, nominal, None, self.process.now());
        Entry::from(Message {
            id: backfill_id(job.name.as_str(), nominal, label),
            source: Source::Manual,
            // The same key as the schedule's own run, so that there is no second run while that one is alive.
            dedupe: Some(Occurrence::identity(&job.name, nominal)),
            due_at,
            ..message
        })
    }
}

fn check(backfill: &Backfill, (from, to): (Timestamp, Timestamp), now: Timestamp) -> Result<()> {
    if from >= to {
        return Err(Error::invalid(format!(
            "the range from {from} to {to} is empty; its end must be later than its beginning"
        )));
    }
    if to > now {
        return Err(Error::invalid(format!(
            "the range ends at {to}, which is in the future (it is {now}); a backfill covers the past only"
        )));
    }
    if !(1..=MESSAGES_MAX).contains(&backfill.max) {
        return Err(Error::invalid(format!(
            "a backfill of at most {} runs is not possible; give 1 to {MESSAGES_MAX}",
            backfill.max
        )));
    }
    Ok(())
}

/// Returns the occurrences of a range, oldest first, without those that the schedule itself will fire.
fn occurrences(
    walk: &Walk,
    record: &JobRecord,
    from: Timestamp,
    to: Timestamp,
) -> Result<Vec<Timestamp>> {
    let active = record.paused.is_none() && record.retired.is_none();
    let end = record.cursor.filter(|_| active).map_or(to, |cursor| cursor.min(to));
    let found: Vec<Timestamp> = walk
        .after(&record.job.schedule, just_before(from))
        .take_while(|nominal| *nominal < end)
        .take(OCCURRENCES_MAX + 1)
        .collect();
    if found.len() > OCCURRENCES_MAX {
        return Err(Error::invalid(format!(
            "the job {:?} has more than {OCCURRENCES_MAX} occurrences from {from} to {to}; give a shorter range",
            record.job.name
        )));
    }
    Ok(found)
}

/// Returns a UUID of version 7 that depends only on job, nominal time and label, with the time of the occurrence.
fn backfill_id(job: &str, nominal: Timestamp, label: &str) -> MessageId {
    let instant = nominal.as_nanosecond().to_le_bytes();
    let hash = |part: &[u8]| stable_hash(&[part, job.as_bytes(), &instant, label.as_bytes()]);
    let (first, second) = (hash(b"backfill"), hash(b"backfill, the other half"));
    let millisecond = u64::try_from(nominal.as_millisecond()).unwrap_or(0);
    let high = (millisecond << 16) | 0x7000 | (first & 0x0fff);
    let low = (second >> 2) | (0b10 << 62);
    MessageId::from_uuid(Uuid::from_u64_pair(high, low))
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn an_id_is_of_version_7_and_depends_on_job_instant_and_label() {
        let nominal: Timestamp = "2026-03-02T07:00:00Z".parse().unwrap();
        let id = backfill_id("nightly", nominal, "");
        assert_eq!(id.as_uuid().get_version_num(), 7);
        assert_eq!(id, backfill_id("nightly", nominal, ""));
        let later = nominal + SignedDuration::from_nanos(1);
        let others =
            [("hourly", nominal, ""), ("nightly", later, ""), ("nightly", nominal, "again")];
        for (job, nominal, label) in others {
            assert_ne!(id, backfill_id(job, nominal, label));
        }
        assert!(id < backfill_id("a", nominal + SignedDuration::from_millis(1), ""), "by age");
    }
}
