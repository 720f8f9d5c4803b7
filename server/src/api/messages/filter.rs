//! Which messages: what a storage can answer by itself, and the rest, which `look.rs` looks for.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use punctual::inspect::{Counts, MessageFilter};
use punctual::model::{BatchId, JobName, Key, MessageRecord, MessageState, Phase, Queue, Topic};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use utoipa::{IntoParams, ToSchema};

use super::part::Part;
use crate::app::App;
use crate::problem::{Answer, Problem};

/// Which messages, as asked for.
#[derive(Clone, Debug, Default, Deserialize, IntoParams, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct MessageQuery {
    /// Only these states, with commas between them.
    #[serde(deserialize_with = "words")]
    #[param(value_type = Option<String>, example = "pending,running")]
    #[schema(value_type = Option<WordsText>)]
    pub(crate) state: Vec<String>,
    /// Only these phases, with commas between them.
    #[serde(deserialize_with = "words")]
    #[param(value_type = Option<String>)]
    #[schema(value_type = Option<WordsText>)]
    pub(crate) phase: Vec<String>,
    /// Only this queue.
    pub(crate) queue: Option<String>,
    /// Only this topic.
    pub(crate) topic: Option<String>,
    /// Only about this key.
    pub(crate) key: Option<String>,
    /// Only runs of this job.
    pub(crate) job: Option<String>,
    /// Only of this batch.
    pub(crate) batch: Option<String>,
    /// With `true` only one-time jobs that were planned at run time, of every name. Those of one name are under
    /// `/jobs/{name}/planned`.
    pub(crate) planned: Option<bool>,
    /// Only where the last failure holds this text, in upper or lower case.
    pub(crate) error: Option<String>,
    /// Only with at least so many attempts.
    pub(crate) attempt_min: Option<u32>,
    /// Only those made at this instant or later. Found by the instant in the id, so that one whose sender chose
    /// another kind of id, or one of a backfill, may lie on a later page.
    pub(crate) since: Option<String>,
    /// Only those made before this instant, by the instant in the id as well.
    pub(crate) until: Option<String>,
    /// Only where the id, the topic, the queue, a key, the job, the story or the last failure holds this
    /// text.
    pub(crate) search: Option<String>,
    /// Only where the content is JSON and has this text, number, truth or null under these names, such as
    /// `user.id:42`. What is hidden from people is not found, nor what is in a content over 64 KiB.
    #[param(example = "user.id:42")]
    pub(crate) payload: Option<String>,
    /// At most so many rows: 1 to 1000, 50 when not given. Not in a filter within a body.
    #[param(minimum = 1, maximum = 1000)]
    pub(crate) limit: Option<usize>,
    /// The `next` of the page before. Not in a filter within a body.
    pub(crate) after: Option<String>,
}

/// Words with commas between them, or a list of words.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only described; `words` reads it")]
enum WordsText {
    /// With commas between them.
    Text(String),
    /// One by one.
    List(Vec<String>),
}

/// Words with commas between them, or a list of words.
pub(crate) fn words<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    struct Words;
    impl<'de> Visitor<'de> for Words {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("words")
        }

        fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
            let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
            Ok(words.map(ToOwned::to_owned).collect())
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Vec::new())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
            let mut words = Vec::new();
            while let Some(word) = items.next_element()? {
                words.push(word);
            }
            Ok(words)
        }
    }
    deserializer.deserialize_any(Words)
}

/// Which messages, checked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// What a storage answers by itself.
    pub(crate) filter: MessageFilter,
    phases: Vec<Phase>,
    error: Option<String>,
    attempt_min: u32,
    pub(super) since: Option<Timestamp>,
    pub(super) until: Option<Timestamp>,
    search: Option<String>,
    /// Whether somebody waits for a page: then it may be short.
    pub(super) is_page: bool,
    payload: Option<Part>,
}

impl MessageQuery {
    /// Checks what was asked for.
    pub(crate) fn wanted(&self) -> Answer<Wanted> {
        let states = named("state", &self.state, &MessageState::ALL, |state| state.as_str())?;
        let known = Phase::ALL.map(|(phase, _)| phase);
        let phases = named("phase", &self.phase, &known, |phase| phase.as_str())?;
        without_nul(&[("queue", self.queue.as_ref()), ("key", self.key.as_ref())])?;
        let queue = self.queue.clone().map(Queue::from);
        let filter = MessageFilter {
            states,
            queue,
            topic: checked("topic", self.topic.as_ref(), |text| Topic::stored(text))?,
            key: self.key.as_deref().map(Key::written),
            job: checked("job", self.job.as_ref(), |text| JobName::new(text))?,
            batch: checked("batch", self.batch.as_ref(), BatchId::from_str)?,
            planned: self.planned.unwrap_or(false),
        };
        Ok(Wanted {
            filter,
            phases,
            error: self.error.as_ref().map(|text| text.to_lowercase()),
            attempt_min: self.attempt_min.unwrap_or(0),
            since: instant("since", self.since.as_ref())?,
            until: instant("until", self.until.as_ref())?,
            search: self.search.as_ref().map(|text| text.to_lowercase()),
            is_page: false,
            payload: self.payload.as_deref().map(Part::parse).transpose()?,
        })
    }

    /// The same for a filter within a body, where the limit stands beside it.
    pub(crate) fn wanted_in_body(&self) -> Answer<Wanted> {
        if self.limit.is_some() || self.after.is_some() {
            return Err(Problem::refused(
                "a filter has no `limit` and no `after`; give the limit beside it",
            )
            .field("filter", "holds limit or after"));
        }
        self.wanted()
    }
}

/// Refuses texts that no queue and no key can be, and that some storages cannot even look for.
fn without_nul(fields: &[(&str, Option<&String>)]) -> Answer<()> {
    for (field, text) in fields {
        if text.is_some_and(|text| text.contains('\0')) {
            let problem = "holds a NUL sign; leave it out";
            return Err(Problem::refused(format!("the {field} {problem}")).field(*field, problem));
        }
    }
    Ok(())
}

/// Words that must be among those that are known.
fn named<T: Copy>(
    field: &str,
    words: &[String],
    known: &[T],
    name: impl Fn(&T) -> &'static str,
) -> Answer<Vec<T>> {
    let find = |word: &String| {
        known.iter().find(|one| name(one) == word).copied().ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(&name).collect();
            let problem = format!("{word:?} is not one of {}", names.join(", "));
            Problem::refused(format!("the {field} {problem}")).field(field, problem)
        })
    };
    words.iter().map(find).collect()
}

/// A value that its own type checks.
pub(crate) fn checked<T>(
    field: &str,
    text: Option<&String>,
    check: impl Fn(&str) -> punctual::Result<T>,
) -> Answer<Option<T>> {
    let read = |text: &String| {
        check(text)
            .map_err(|error| Problem::refused(error.to_string()).field(field, error.to_string()))
    };
    text.map(read).transpose()
}

/// An instant such as `2026-03-01T12:00:00Z`.
pub(crate) fn instant(field: &str, text: Option<&String>) -> Answer<Option<Timestamp>> {
    let read = |text: &String| {
        text.parse().map_err(|_| {
            let problem =
                format!("{text:?} is not an instant; write one such as 2026-03-01T12:00:00Z");
            Problem::refused(format!("`{field}`: {problem}")).field(field, problem)
        })
    };
    text.map(read).transpose()
}

impl From<MessageFilter> for Wanted {
    fn from(filter: MessageFilter) -> Self {
        Self { filter, ..Self::default() }
    }
}

impl Wanted {
    /// For a page that somebody waits for.
    pub(crate) fn for_page(self) -> Self {
        Self { is_page: true, ..self }
    }

    /// Only of these states.
    pub(crate) fn of_states(states: &[MessageState]) -> Self {
        MessageFilter { states: states.to_vec(), ..MessageFilter::default() }.into()
    }

    /// Whether a storage answers all of it.
    pub(crate) fn is_plain(&self) -> bool {
        self.phases.is_empty()
            && self.error.is_none()
            && self.attempt_min == 0
            && self.since.is_none()
            && self.until.is_none()
            && self.search.is_none()
            && self.payload.is_none()
    }

    /// How many there are, when only states and queues are asked for.
    pub(crate) fn counted(&self, counts: &Counts) -> Option<u64> {
        let MessageFilter { states, queue, topic, key, job, batch, planned } = &self.filter;
        let is_narrow = topic.is_some() || key.is_some() || job.is_some() || batch.is_some();
        let matching = counts.messages.iter().filter(|((of, state), _)| {
            queue.as_ref().is_none_or(|queue| queue == of)
                && (states.is_empty() || states.contains(state))
        });
        let is_counted = !is_narrow && !planned;
        (is_counted && self.is_plain()).then(|| matching.map(|(_, count)| count).sum())
    }

    /// Whether a row is meant that the storage found.
    pub(super) fn takes(&self, record: &MessageRecord, app: &App, now: Timestamp) -> bool {
        let created = record.message.created_at;
        let holds = |text: Option<&str>, part: &str| {
            text.is_some_and(|text| text.to_lowercase().contains(part))
        };
        (self.phases.is_empty() || self.phases.contains(&record.phase(now)))
            && record.attempt >= self.attempt_min
            && self.since.is_none_or(|since| created >= since)
            && self.until.is_none_or(|until| created < until)
            && self.error.as_ref().is_none_or(|part| holds(record.error.as_deref(), part))
            && self.search.as_ref().is_none_or(|part| found(record, part))
            && self.payload.as_ref().is_none_or(|part| {
                let message = &record.message;
                part.is_in(message.topic.as_str(), &message.body, app.redaction())
            })
    }
}

/// Whether one of the texts of a message holds a part. Never its body or headers, where it would tell what
/// is hidden.
fn found(record: &MessageRecord, part: &str) -> bool {
    let message = &record.message;
    let job = message.occurrence.as_ref().map(|occurrence| occurrence.job.to_string());
    let texts = [
        Some(message.id.to_string()),
        Some(message.topic.to_string()),
        Some(message.queue.to_string()),
        message.key.as_ref().map(ToString::to_string),
        message.dedupe.as_ref().map(ToString::to_string),
        job,
        message.correlation.id.as_ref().map(ToString::to_string),
        record.error.as_ref().map(ToString::to_string),
    ];
    texts.into_iter().flatten().any(|text| text.to_lowercase().contains(part))
}
