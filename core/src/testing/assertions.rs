//! Assertions of a test harness, and the messages and executions they check. A failed assertion lists what was found.

use futures_util::FutureExt;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::TestHarness;
use crate::compression::decompressed;
use crate::inspect::{ExecutionFilter, Inspect, MessageFilter, PAGE_LIMIT_MAX, PageRequest};
use crate::model::{Ending, Execution, MessageRecord, MessageState, Topic};

/// The most pages that are read: the whole history of a memory storage.
const PAGES_MAX: usize = 100;

impl TestHarness {
    /// Returns every message of a topic in any state, oldest first.
    pub fn messages(&self, topic: &str) -> Vec<MessageRecord> {
        let process = self.punctual.process();
        let filter = MessageFilter { topic: Topic::stored(topic).ok(), ..MessageFilter::default() };
        let (mut all, mut page) = (Vec::new(), PageRequest::first(PAGE_LIMIT_MAX));
        for _ in 0..PAGES_MAX {
            // The storage in memory never waits.
            let read = self.storage.messages(filter.clone(), page).now_or_never();
            let Some(Ok(read)) = read else { break };
            let rows = read.rows.into_iter();
            all.extend(rows.map(|record| decompressed(record, process.env.options.payload_max)));
            let Some(next) = read.next else { break };
            page = PageRequest::after(next, PAGE_LIMIT_MAX);
        }
        all.reverse();
        all
    }

    /// Returns the payloads of all messages of a topic, oldest first, without those that do not deserialize as `T`.
    pub fn published<T: DeserializeOwned>(&self, topic: &str) -> Vec<T> {
        let messages = self.messages(topic);
        let codecs = &self.punctual.process().sender.outbound.codecs;
        messages.iter().filter_map(|record| codecs.read(&record.message).ok()).collect()
    }

    /// Returns every attempt of a topic and every skipped occurrence, oldest first.
    pub fn executions(&self, topic: &str) -> Vec<Execution> {
        let filter =
            ExecutionFilter { topic: Topic::stored(topic).ok(), ..ExecutionFilter::default() };
        let (mut all, mut page) = (Vec::new(), PageRequest::first(PAGE_LIMIT_MAX));
        for _ in 0..PAGES_MAX {
            let read = self.storage.executions(filter.clone(), page).now_or_never();
            let Some(Ok(read)) = read else { break };
            all.extend(read.rows);
            let Some(next) = read.next else { break };
            page = PageRequest::after(next, PAGE_LIMIT_MAX);
        }
        all.sort_by_key(|execution| (execution.ended_at, execution.id));
        all
    }

    /// Returns the dead letters of a topic, oldest first.
    pub fn dead(&self, topic: &str) -> Vec<MessageRecord> {
        let messages = self.messages(topic).into_iter();
        messages.filter(|record| record.state == MessageState::Dead).collect()
    }

    /// Asserts how often a message with this payload was published to a topic.
    #[track_caller]
    pub fn assert_published<T: Serialize + ?Sized>(&self, topic: &str, payload: &T, times: usize) {
        let written = self.punctual.publisher().written(payload);
        let expected = written.map(|body| body.bytes).unwrap_or_default();
        let messages = self.messages(topic);
        let found = messages.iter().filter(|record| record.message.body.bytes == expected).count();
        assert!(
            found == times,
            "expected {times} of {topic:?} with {}, found {found}; the payloads there are: [{}]",
            String::from_utf8_lossy(&expected),
            list(messages.iter().map(|record| {
                String::from_utf8_lossy(&record.message.body.bytes).into_owned()
            })),
        );
    }

    /// Asserts the number of attempts of a topic; skipped occurrences do not count.
    #[track_caller]
    pub fn assert_executed(&self, topic: &str, times: usize) {
        let executions = self.executions(topic);
        let ran = executions.iter().filter(|one| !matches!(one.ending, Ending::Skipped(_)));
        let found = ran.count();
        assert!(
            found == times,
            "expected {times} attempts of {topic:?}, found {found}: [{}]",
            list(executions.iter().map(|one| {
                let note = one.note.as_deref().map(|note| format!(" ({note})")).unwrap_or_default();
                format!("{} {}{note}", one.ended_at, one.ending.as_str())
            })),
        );
    }

    /// Asserts the number of dead letters of a topic.
    #[track_caller]
    pub fn assert_dead(&self, topic: &str, times: usize) {
        let messages = self.messages(topic);
        let found = messages.iter().filter(|record| record.state == MessageState::Dead).count();
        assert!(
            found == times,
            "expected {times} dead letters of {topic:?}, found {found}; its messages are: [{}]",
            list(messages.iter().map(|record| {
                let error = record.error.as_deref().unwrap_or("no error");
                format!("{} after {} attempts, {error}", record.state.as_str(), record.attempt)
            })),
        );
    }
}

/// The most items listed in a failed assertion.
const LISTED_MAX: usize = 20;

fn list(items: impl ExactSizeIterator<Item = String>) -> String {
    let more = items.len().saturating_sub(LISTED_MAX);
    let mut listed: Vec<String> = items.take(LISTED_MAX).collect();
    if more > 0 {
        listed.push(format!("and {more} more"));
    }
    listed.join(", ")
}
