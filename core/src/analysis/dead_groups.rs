//! Groups of dead letters: those with the same topic, job and error, whatever the variable parts of the error.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use super::fingerprint::fingerprint;
use crate::error::Result;
use crate::inspect::{Inspect, MessageFilter, PAGE_LIMIT_MAX, PageRequest};
use crate::model::time::between;
use crate::model::{DeadReason, JobName, MessageId, MessageRecord, MessageState, Topic};

/// Largest number of dead letters that are read.
const SCANNED_MAX: usize = 10_000;
/// Largest number of pages read; a page of the storage may be short.
const PAGES_MAX: usize = 500;
/// Number of hours in the histogram of a group.
const HOURS: usize = 24;

/// Dead letters with the same topic, job and error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeadGroup {
    /// Identifies the group: [`dead_fingerprint`] of its messages.
    pub fingerprint: String,
    /// Topic of the messages.
    pub topic: Topic,
    /// Job of the messages; `None` when they are not runs of a job.
    pub job: Option<JobName>,
    /// Error of the newest dead letter.
    pub error: Option<String>,
    /// Why the newest one became a dead letter.
    pub reason: Option<DeadReason>,
    /// Number of dead letters.
    pub count: u64,
    /// When the oldest one became a dead letter.
    pub first_at: Timestamp,
    /// When the newest one became a dead letter.
    pub last_at: Timestamp,
    /// Message id of the newest one.
    pub sample: MessageId,
    /// Number of new dead letters in each of the last 24 hours, oldest hour first.
    pub per_hour: Vec<u64>,
}

/// Groups of the newest dead letters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeadGroups {
    /// The groups, largest first.
    pub groups: Vec<DeadGroup>,
    /// Number of dead letters that were read.
    pub scanned: usize,
    /// Whether there are more dead letters than were read.
    pub more: bool,
}

/// Returns the fingerprint of the group of a dead letter: sixteen hexadecimal digits, the same in every process.
pub fn dead_fingerprint(record: &MessageRecord) -> String {
    let message = &record.message;
    let job = message.occurrence.as_ref().map(|occurrence| occurrence.job.as_str());
    fingerprint(message.topic.as_str(), job, record.error.as_deref())
}

/// Groups the newest dead letters.
pub(crate) async fn dead_groups(inspect: &dyn Inspect, now: Timestamp) -> Result<DeadGroups> {
    let filter = MessageFilter { states: vec![MessageState::Dead], ..MessageFilter::default() };
    let mut groups: BTreeMap<String, DeadGroup> = BTreeMap::new();
    let (mut scanned, mut next) = (0, None);
    for _ in 0..PAGES_MAX {
        let limit = PAGE_LIMIT_MAX.min(SCANNED_MAX - scanned);
        let page = inspect.messages(filter.clone(), PageRequest { after: next, limit }).await?;
        scanned += page.rows.len();
        for record in &page.rows {
            let group = groups
                .entry(dead_fingerprint(record))
                .or_insert_with_key(|name| DeadGroup::new(name, record));
            group.add(record, now);
        }
        next = page.next;
        if next.is_none() || scanned >= SCANNED_MAX {
            break;
        }
    }
    let mut groups: Vec<DeadGroup> = groups.into_values().collect();
    groups.sort_by_key(|group| (Reverse(group.count), group.fingerprint.clone()));
    Ok(DeadGroups { groups, scanned, more: next.is_some() })
}

impl DeadGroup {
    /// Creates an empty group with its newest dead letter as the sample.
    fn new(fingerprint: &str, record: &MessageRecord) -> Self {
        let message = &record.message;
        let at = dead_at(record);
        Self {
            fingerprint: fingerprint.to_owned(),
            topic: message.topic.clone(),
            job: message.occurrence.as_ref().map(|occurrence| occurrence.job.clone()),
            error: record.error.as_ref().map(ToString::to_string),
            reason: record.dead,
            count: 0,
            first_at: at,
            last_at: at,
            sample: message.id,
            per_hour: vec![0; HOURS],
        }
    }

    fn add(&mut self, record: &MessageRecord, now: Timestamp) {
        let at = dead_at(record);
        self.count += 1;
        self.first_at = self.first_at.min(at);
        self.last_at = self.last_at.max(at);
        let hours_ago = usize::try_from(between(at, now).as_secs() / 3_600).unwrap_or(usize::MAX);
        if let Some(hour) = HOURS.checked_sub(hours_ago.saturating_add(1))
            && let Some(count) = self.per_hour.get_mut(hour)
        {
            *count += 1;
        }
    }
}

/// Returns when a message became a dead letter.
fn dead_at(record: &MessageRecord) -> Timestamp {
    record.ended_at.unwrap_or(record.message.created_at)
}
