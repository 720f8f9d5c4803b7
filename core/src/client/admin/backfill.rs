//! Backfill: occurrences of the past become messages, each with its own nominal time, and the schedule is
//! left alone. A message's identity is made of job, nominal time and label, so that a backfill that broke
//! off or is asked for again stores nothing twice, for as long as the storage remembers it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use super::Admin;
use crate::clock::{add, subtract};
use crate::engine::occurrence_message;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::inspect::{MessageFilter, PAGE_LIMIT_MAX, PageRequest};
use crate::model::{JobRecord, Message, MessageId, Occurrence, Source};
use crate::schedule::stable_hash;
use crate::storage::{EnqueueResult, Entry};

/// The most occurrences that the range of one backfill may hold.
pub const OCCURRENCES_MAX: usize = 100_000;

/// After how many of them other tasks get their turn.
const STEPS_WITHOUT_YIELD: usize = 500;
/// The most messages that one backfill may store.
const MESSAGES_MAX: usize = 10_000;
/// How many are stored in one step.
const STEP: usize = 500;
/// How many pages of messages are looked through for what has run already.
const PAGES_MAX: usize = 100;
/// How far clocks may be apart when messages are told by the time they were made.
const SKEW_MAX: Duration = Duration::from_secs(60);

/// How a range of the past is made up for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backfill {
    /// Only says what would be done. Default no.
    pub dry_run: bool,
    /// The most runs; those beyond it are left. Default 100.
    pub max: usize,
    /// Which occurrence comes first, and which are left when there are too many. Default oldest first.
    pub order: BackfillOrder,
    /// Which occurrences. Default those that never ran.
    pub which: BackfillSelection,
    /// Tells two backfills of the same range apart: under the same label an occurrence runs once, under
    /// another one again. Default empty.
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

/// In which order a backfill runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackfillOrder {
    /// The oldest occurrence first.
    OldestFirst,
    /// The newest occurrence first.
    NewestFirst,
}

/// Which occurrences of a range a backfill is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackfillSelection {
    /// Those without a message of their own: skipped, missed, or before the job was declared. What the
    /// storage has forgotten counts as missing, too.
    Missing,
    /// All of them, also those that have run.
    All,
}

/// What a backfill came to, or would come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackfillResult {
    /// The occurrences it is about, in the order they run.
    pub nominals: Vec<Timestamp>,
    /// The messages that were stored; none in a dry run.
    pub stored: Vec<MessageId>,
    /// How many were not stored because they are there already.
    pub duplicates: u64,
    /// How many occurrences of the range were left out because they have run.
    pub present: u64,
    /// Whether the range holds more than were to be run.
    pub more: bool,
}

impl Admin {
    /// Runs occurrences of the past, from an instant on and before another one, each in its own name, as
    /// the job is defined now. Works on paused jobs, and never beside the schedule: what an active job
    /// has still to decide about is left to it. Runs wait for each other unless the job allows overlaps,
    /// and while they are alive the job's overlap policy sees them.
    pub async fn backfill(
        &self,
        job: impl AsRef<str>,
        from: Timestamp,
        to: Timestamp,
        backfill: &Backfill,
    ) -> Result<BackfillResult> {
        let record = self.job(job).await?;
        let now = self.process.now();
        check(backfill, (from, to), now)?;
        let mut nominals = occurrences(&record, from, to).await?;
        let before = nominals.len();
        if backfill.which == BackfillSelection::Missing && before > 0 {
            let there = self.present(&record, from).await?;
            nominals.retain(|nominal| !there.contains(nominal));
        }
        let present = (before - nominals.len()) as u64;
        if backfill.order == BackfillOrder::NewestFirst {
            nominals.reverse();
        }
        let more = nominals.len() > backfill.max;
        nominals.truncate(backfill.max);
        let mut done = BackfillResult { nominals, present, more, ..BackfillResult::default() };
        if !backfill.dry_run {
            self.store(&record, &backfill.label, &mut done).await?;
        }
        Ok(done)
    }

    /// The nominal times since an instant that have a message of their own.
    async fn present(&self, record: &JobRecord, from: Timestamp) -> Result<BTreeSet<Timestamp>> {
        let name = &record.job.name;
        let filter = MessageFilter { job: Some(name.clone()), ..MessageFilter::default() };
        let mut page = PageRequest::first(PAGE_LIMIT_MAX);
        let mut there = BTreeSet::new();
        for _ in 0..PAGES_MAX {
            let paged = self.messages(filter.clone(), page).await?;
            let messages = paged.rows.iter().map(|record| &record.message);
            there.extend(messages.filter_map(|message| Some(message.occurrence.as_ref()?.nominal)));
            // A message is never older than its occurrence, and ids go by age.
            let all_older = paged
                .rows
                .last()
                .is_some_and(|last| last.message.created_at < subtract(from, SKEW_MAX));
            match paged.next {
                Some(next) if !all_older => page = PageRequest::after(next, PAGE_LIMIT_MAX),
                _ => return Ok(there),
            }
        }
        Err(Error::invalid(format!(
            "the job {name:?} has too many messages since {from} to tell which occurrences have run; begin later, or backfill all of them"
        )))
    }

    async fn store(
        &self,
        record: &JobRecord,
        label: &str,
        done: &mut BackfillResult,
    ) -> Result<()> {
        let now = self.process.now();
        let mut due_at = now;
        for step in done.nominals.chunks(STEP) {
            let mut entries = Vec::with_capacity(step.len());
            for nominal in step {
                entries.push(self.entry(record, label, *nominal, due_at));
                // One after the other, in the order asked for.
                due_at = add(due_at, Duration::from_micros(1));
            }
            let made: Vec<Arc<Message>> =
                entries.iter().map(|entry| entry.message.clone()).collect();
            let answers = self.process.storage.enqueue(entries, now).await?;
            for (message, answer) in made.into_iter().zip(answers) {
                if let EnqueueResult::Duplicate(_) = answer {
                    done.duplicates += 1;
                    continue;
                }
                done.stored.push(message.id);
                self.process.events.emit(Event::MessageEnqueued {
                    message: message.id,
                    topic: message.topic.clone(),
                    queue: message.queue.clone(),
                    due_at: message.due_at,
                });
            }
        }
        let job = record.job.name.clone();
        self.process.events.emit(Event::JobSteered { job, change: "backfilled" });
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
        let made = occurrence_message(&self.process, job, nominal, None, self.process.now());
        Entry::from(Message {
            id: identity(job.name.as_str(), nominal, label),
            source: Source::Manual,
            // While the schedule's own run of this occurrence is alive there is no second one.
            dedupe: Some(Occurrence::identity(&job.name, nominal)),
            due_at,
            ..made
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
            "the range ends at {to}, which is still to come (it is {now}); a backfill is about the past"
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

/// The occurrences of a range, oldest first, without those that the schedule itself will decide about.
async fn occurrences(record: &JobRecord, from: Timestamp, to: Timestamp) -> Result<Vec<Timestamp>> {
    let active = record.paused.is_none() && record.retired.is_none();
    let end = record.cursor.filter(|_| active).map_or(to, |cursor| cursor.min(to));
    let instant = SignedDuration::from_nanos(1);
    let first = from.checked_sub(instant).unwrap_or(Timestamp::MIN);
    let last = end.checked_sub(instant).unwrap_or(Timestamp::MIN);
    let mut found = Vec::new();
    for nominal in record.job.schedule.occurrences(first, last).take(OCCURRENCES_MAX + 1) {
        found.push(nominal);
        if found.len().is_multiple_of(STEPS_WITHOUT_YIELD) {
            tokio::task::yield_now().await;
        }
    }
    if found.len() > OCCURRENCES_MAX {
        return Err(Error::invalid(format!(
            "the job {:?} has more than {OCCURRENCES_MAX} occurrences from {from} to {to}; give a shorter range",
            record.job.name
        )));
    }
    Ok(found)
}

/// An id of version 7 that is the same for the same occurrence and label, and as old as the occurrence.
fn identity(job: &str, nominal: Timestamp, label: &str) -> MessageId {
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
    use super::*;

    #[test]
    fn an_identity_is_of_version_7_and_says_job_instant_and_label() {
        let nominal: Timestamp = "2026-03-02T07:00:00Z".parse().unwrap();
        let id = identity("nightly", nominal, "");
        assert_eq!(id.as_uuid().get_version_num(), 7);
        assert_eq!(id, identity("nightly", nominal, ""));
        let later = nominal + SignedDuration::from_nanos(1);
        let others =
            [("hourly", nominal, ""), ("nightly", later, ""), ("nightly", nominal, "again")];
        for (job, nominal, label) in others {
            assert_ne!(id, identity(job, nominal, label));
        }
        assert!(id < identity("a", nominal + SignedDuration::from_millis(1), ""), "by age");
    }
}
