//! An execution: the record of one attempt, or of an occurrence that was skipped. Written once,
//! when it ended, and never edited; together they are the history.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{ExecutionId, JobName, Key, MessageId, ProcessId, Queue, Source, Topic};

/// One attempt that ended, or one occurrence that was not run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Execution {
    /// Its identity; the handler knew it while it ran.
    pub id: ExecutionId,
    /// The message that was attempted; none for a skipped occurrence.
    pub message: Option<MessageId>,
    /// The topic, or the topic the job would have used.
    pub topic: Topic,
    /// The line the message waited in.
    pub queue: Queue,
    /// What the message was about.
    pub key: Option<Key>,
    /// The job, when there is one.
    pub job: Option<JobName>,
    /// The instant of the schedule, when there is one.
    pub nominal: Option<Timestamp>,
    /// Why the message existed.
    pub source: Source,
    /// Which attempt this was, from 1; 0 for a skipped occurrence.
    pub attempt: u32,
    /// How many attempts there may be; none without a limit.
    pub attempts_max: Option<u32>,
    /// The process that ran it.
    pub process: Option<ProcessId>,
    /// When the message was due.
    pub due_at: Timestamp,
    /// When the attempt began.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// How it ended.
    pub ending: Ending,
    /// The error or note, for people.
    pub note: Option<Arc<str>>,
    /// The lines its handler logged, one under the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<Arc<str>>,
}

impl Execution {
    /// How long the attempt took.
    pub fn took(&self) -> Duration {
        Duration::try_from(self.ended_at.duration_since(self.started_at)).unwrap_or(Duration::ZERO)
    }

    /// The oldest occurrence that a record of skipped ones is about; the newest is its nominal time.
    pub fn skipped_since(&self) -> Option<Timestamp> {
        let (Ending::Skipped(_), Some(last)) = (self.ending, self.nominal) else { return None };
        let folded = self.note.as_deref().and_then(|note| note.split_once(FOLDED));
        let first = folded.and_then(|(_, span)| span.split_once(" to ")?.0.parse().ok());
        Some(first.unwrap_or(last))
    }
}

/// The words by which a note says that it is about many occurrences.
const FOLDED: &str = " occurrences from ";

/// The note of a record that is about many skipped occurrences.
pub(crate) fn folded(count: u64, more: bool, first: Timestamp, last: Timestamp) -> String {
    let more = if more { "at least " } else { "" };
    format!("{more}{count}{FOLDED}{first} to {last}")
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome", content = "reason")]
pub enum Ending {
    /// The handler was done.
    Succeeded,
    /// The handler returned an error, or asked for another try.
    Failed,
    /// It took longer than it may.
    TimedOut,
    /// The handler panicked.
    Panicked,
    /// No handler has this topic.
    NoHandler,
    /// The body could not be read.
    Poison,
    /// The handler asked to be called later, at no cost.
    Snoozed,
    /// The handler gave up on purpose.
    Discarded,
    /// The handler or an operator cancelled it.
    Cancelled,
    /// Shutdown gave it back.
    Released,
    /// The process was lost.
    Lost,
    /// The occurrence was not run.
    Skipped(SkipReason),
}

impl Ending {
    /// Every ending without its reason, for documents and metrics.
    pub const NAMES: [&'static str; 12] = [
        "succeeded",
        "failed",
        "timed_out",
        "panicked",
        "no_handler",
        "poison",
        "snoozed",
        "discarded",
        "cancelled",
        "released",
        "lost",
        "skipped",
    ];

    /// The ending in one lower-case word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Panicked => "panicked",
            Self::NoHandler => "no_handler",
            Self::Poison => "poison",
            Self::Snoozed => "snoozed",
            Self::Discarded => "discarded",
            Self::Cancelled => "cancelled",
            Self::Released => "released",
            Self::Lost => "lost",
            Self::Skipped(_) => "skipped",
        }
    }

    /// Whether it counts as a failure in health, metrics and the recording of failures only.
    pub fn is_failure(self) -> bool {
        matches!(
            self,
            Self::Failed
                | Self::TimedOut
                | Self::Panicked
                | Self::NoHandler
                | Self::Poison
                | Self::Discarded
                | Self::Lost
        )
    }
}

/// Why an occurrence was not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// Missed, and the misfire policy does not make up for it.
    Misfire,
    /// Older than the window in which a missed occurrence may still be fired.
    Window,
    /// Beyond the number of missed occurrences that are made up for.
    CatchUpLimit,
    /// The run before was still alive.
    Overlap,
    /// The job was paused.
    Paused,
    /// An operator skipped this one.
    Operator,
    /// Too late to be useful.
    Expired,
}

impl SkipReason {
    /// The reason in lower-case words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Misfire => "misfire",
            Self::Window => "older than the window",
            Self::CatchUpLimit => "beyond the catch-up limit",
            Self::Overlap => "overlap",
            Self::Paused => "paused",
            Self::Operator => "skipped by an operator",
            Self::Expired => "too late to be useful",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The glossary left out four of them.
    #[test]
    fn the_glossary_names_every_ending() {
        let glossary = include_str!("../../../docs/glossary.md");
        let (_, said) = glossary.split_once("An execution ended as").unwrap();
        let (said, _) = said.split_once("with").unwrap();
        let words: Vec<&str> =
            said.split(|sign: char| !(sign.is_alphanumeric() || sign == '_')).collect();
        for name in Ending::NAMES {
            assert!(words.contains(&name), "{name} is not in: {said}");
        }
    }

    #[test]
    fn a_folded_skip_says_what_it_is_about_and_reads_it_back() {
        let [first, last]: [Timestamp; 2] =
            ["2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z"].map(|text| text.parse().unwrap());
        let mut execution = Execution {
            id: ExecutionId::from_uuid(uuid::Uuid::nil()),
            message: None,
            topic: Topic::new("a").unwrap(),
            queue: Queue::default(),
            key: None,
            job: None,
            nominal: Some(last),
            source: Source::Scheduled,
            attempt: 0,
            attempts_max: None,
            process: None,
            due_at: last,
            started_at: last,
            ended_at: last,
            ending: Ending::Skipped(SkipReason::Paused),
            note: Some(Arc::from(folded(25, true, first, last))),
            log: None,
        };
        assert_eq!(execution.skipped_since(), Some(first));
        execution.note = None;
        assert_eq!(execution.skipped_since(), Some(last), "one alone");
        execution.ending = Ending::Failed;
        assert_eq!(execution.skipped_since(), None);
    }
}
