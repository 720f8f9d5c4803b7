//! Execution: the record of one attempt, or of an occurrence that was skipped. Written once, when it ended, and
//! never edited; together they are the history.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{ExecutionId, JobName, Key, MessageId, ProcessId, Queue, Source, Topic};

/// Record of an attempt that ended, or of an occurrence that was skipped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Execution {
    /// Identity of the attempt, known to the handler while it ran.
    pub id: ExecutionId,
    /// Message that was attempted; none for a skipped occurrence.
    pub message: Option<MessageId>,
    /// Topic of the message, or the one that the job would have used.
    pub topic: Topic,
    /// Queue of the message.
    pub queue: Queue,
    /// Key of the message.
    pub key: Option<Key>,
    /// Job of the message, if any.
    pub job: Option<JobName>,
    /// Nominal time on the schedule, if any.
    pub nominal: Option<Timestamp>,
    /// Source of the message.
    pub source: Source,
    /// Number of the attempt, from 1; 0 for a skipped occurrence.
    pub attempt: u32,
    /// Limit of attempts; none means no limit.
    pub attempts_max: Option<u32>,
    /// Process that ran it.
    pub process: Option<ProcessId>,
    /// Due time of the message.
    pub due_at: Timestamp,
    /// Start of the attempt.
    pub started_at: Timestamp,
    /// End of the attempt.
    pub ended_at: Timestamp,
    /// Ending of the attempt.
    pub ending: Ending,
    /// Error or note, for people.
    pub note: Option<Arc<str>>,
    /// Lines that the handler logged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<Arc<str>>,
}

impl Execution {
    /// Returns the duration of the attempt.
    pub fn took(&self) -> Duration {
        Duration::try_from(self.ended_at.duration_since(self.started_at)).unwrap_or(Duration::ZERO)
    }

    /// Returns the oldest occurrence in a record of skipped ones; the newest is its nominal time.
    pub fn skipped_since(&self) -> Option<Timestamp> {
        let (Ending::Skipped(_), Some(last)) = (self.ending, self.nominal) else { return None };
        let folded = self.note.as_deref().and_then(|note| note.split_once(OCCURRENCES_FROM));
        let first = folded.and_then(|(_, span)| span.split_once(" to ")?.0.parse().ok());
        Some(first.unwrap_or(last))
    }
}

/// Words in the note of a record about many occurrences.
const OCCURRENCES_FROM: &str = " occurrences from ";

/// Returns the note of a record about many skipped occurrences.
pub(crate) fn skip_note(count: u64, more: bool, first: Timestamp, last: Timestamp) -> String {
    let more = if more { "at least " } else { "" };
    format!("{more}{count}{OCCURRENCES_FROM}{first} to {last}")
}

/// Ending of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome", content = "reason")]
pub enum Ending {
    /// The handler succeeded.
    Succeeded,
    /// The handler returned an error, or requested a retry.
    Failed,
    /// The attempt exceeded its timeout.
    TimedOut,
    /// The handler panicked.
    Panicked,
    /// No process has a handler for the topic.
    NoHandler,
    /// The body could not be read.
    Poison,
    /// The handler snoozed the message, at no cost.
    Snoozed,
    /// The handler discarded the message.
    Discarded,
    /// The handler or an operator cancelled the message.
    Cancelled,
    /// A shutdown or an HTTP worker released it.
    Released,
    /// The process was lost.
    Lost,
    /// The occurrence was skipped.
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

    /// Returns the ending as one lower-case word.
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

    /// Returns whether it counts as a failure in health, in metrics and for recording failures only.
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

/// Reason why an occurrence was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// It was missed, and the misfire policy does not run it.
    Misfire,
    /// It is older than the window in which missed occurrences are run.
    Window,
    /// It exceeds the number of missed occurrences that are run.
    CatchUpLimit,
    /// The previous run was still alive.
    Overlap,
    /// The job was paused.
    Paused,
    /// An operator skipped it.
    Operator,
    /// It would have started later than its options allow.
    Expired,
}

impl SkipReason {
    /// Returns the reason as text.
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
        let (_, listed) = glossary.split_once("An execution ended as").unwrap();
        let (listed, _) = listed.split_once("with").unwrap();
        let words: Vec<&str> =
            listed.split(|sign: char| !(sign.is_alphanumeric() || sign == '_')).collect();
        for name in Ending::NAMES {
            assert!(words.contains(&name), "{name} is not in: {listed}");
        }
    }

    #[test]
    fn a_record_of_many_skips_contains_its_range() {
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
            note: Some(Arc::from(skip_note(25, true, first, last))),
            log: None,
        };
        assert_eq!(execution.skipped_since(), Some(first));
        execution.note = None;
        assert_eq!(execution.skipped_since(), Some(last), "a single one");
        execution.ending = Ending::Failed;
        assert_eq!(execution.skipped_since(), None);
    }
}
