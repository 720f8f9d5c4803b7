//! Message filter: the conditions that the storage checks, and the rest that `search.rs` checks on each row.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use punctual::inspect::{Counts, MessageFilter};
use punctual::model::{
    BatchId, JobName, Key, Message, MessageRecord, MessageState, Phase, Queue, Topic,
};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use utoipa::{IntoParams, ToSchema};

use super::payload_filter::PayloadFilter;
use crate::app::App;
use crate::problem::{ApiResult, Problem};

/// Filter of messages.
#[derive(Clone, Debug, Default, Deserialize, IntoParams, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct MessageQuery {
    /// Only these states, separated by commas.
    #[serde(deserialize_with = "comma_separated")]
    #[param(value_type = Option<String>, example = "pending,running")]
    #[schema(value_type = Option<WordsText>)]
    pub(crate) state: Vec<String>,
    /// Only these phases, separated by commas.
    #[serde(deserialize_with = "comma_separated")]
    #[param(value_type = Option<String>)]
    #[schema(value_type = Option<WordsText>)]
    pub(crate) phase: Vec<String>,
    /// Only messages of this queue.
    pub(crate) queue: Option<String>,
    /// Only messages of this topic.
    pub(crate) topic: Option<String>,
    /// Only messages with this key.
    pub(crate) key: Option<String>,
    /// Only runs of this job.
    pub(crate) job: Option<String>,
    /// Only messages of this batch.
    pub(crate) batch: Option<String>,
    /// With `true`, only planned one-time jobs of all names; `/jobs/{name}/planned` has those of one name.
    pub(crate) planned: Option<bool>,
    /// Only messages whose last error contains this text, ignoring case. Redacted errors are not searched.
    pub(crate) error: Option<String>,
    /// Only messages with at least this number of attempts.
    pub(crate) attempt_min: Option<u32>,
    /// Only messages created at or after this time. The search uses the time in the message id, so a backfilled message
    /// or one with another kind of id may be on a later page.
    pub(crate) since: Option<String>,
    /// Only messages created before this time; also by the time in the id.
    pub(crate) until: Option<String>,
    /// Only messages whose id, topic, queue, keys, job, correlation or last error contains this text. Redacted errors
    /// are not searched.
    pub(crate) search: Option<String>,
    /// Only messages whose JSON body has this string, number, boolean or null at this path, such as `user.id:42`.
    /// Redacted values and bodies over 64 KiB are not searched.
    #[param(example = "user.id:42")]
    pub(crate) payload: Option<String>,
    /// Page size, 1 to 1000. Default: 50. Not allowed in a filter of a request body.
    #[param(minimum = 1, maximum = 1000)]
    pub(crate) limit: Option<usize>,
    /// Cursor: `next` of the previous page. Not allowed in a filter of a request body.
    pub(crate) after: Option<String>,
}

/// Words separated by commas, or an array of words.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only for the OpenAPI document; `comma_separated` reads it")]
enum WordsText {
    /// Words separated by commas.
    Text(String),
    /// An array of words.
    List(Vec<String>),
}

/// Deserializes words separated by commas, or an array of words.
pub(crate) fn comma_separated<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<String>, D::Error> {
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

/// Checked filter of messages.
#[derive(Clone, Debug, Default)]
pub(crate) struct MessageSelection {
    /// Conditions that the storage checks.
    pub(crate) filter: MessageFilter,
    phases: Vec<Phase>,
    error: Option<String>,
    attempt_min: u32,
    pub(super) since: Option<Timestamp>,
    pub(super) until: Option<Timestamp>,
    search: Option<String>,
    /// Whether one page is requested, which may be short to limit the response time.
    pub(super) is_page: bool,
    payload: Option<PayloadFilter>,
}

impl MessageQuery {
    /// Returns the checked filter.
    pub(crate) fn selection(&self) -> ApiResult<MessageSelection> {
        let states = parse_words("state", &self.state, &MessageState::ALL, |state| state.as_str())?;
        let known = Phase::ALL.map(|(phase, _)| phase);
        let phases = parse_words("phase", &self.phase, &known, |phase| phase.as_str())?;
        without_nul(&[("queue", self.queue.as_ref()), ("key", self.key.as_ref())])?;
        let queue = self.queue.clone().map(Queue::from);
        let filter = MessageFilter {
            states,
            queue,
            topic: checked("topic", self.topic.as_ref(), |text| Topic::stored(text))?,
            key: self.key.as_deref().map(Key::stored),
            job: checked("job", self.job.as_ref(), |text| JobName::new(text))?,
            batch: checked("batch", self.batch.as_ref(), BatchId::from_str)?,
            planned: self.planned.unwrap_or(false),
        };
        Ok(MessageSelection {
            filter,
            phases,
            error: self.error.as_ref().map(|text| text.to_lowercase()),
            attempt_min: self.attempt_min.unwrap_or(0),
            since: instant("since", self.since.as_ref())?,
            until: instant("until", self.until.as_ref())?,
            search: self.search.as_ref().map(|text| text.to_lowercase()),
            is_page: false,
            payload: self.payload.as_deref().map(PayloadFilter::parse).transpose()?,
        })
    }

    /// Returns the checked filter of a request body, which must not have a limit or cursor.
    pub(crate) fn selection_in_body(&self) -> ApiResult<MessageSelection> {
        if self.limit.is_some() || self.after.is_some() {
            return Err(Problem::refused(
                "a filter has no `limit` and no `after`; give them next to the filter",
            )
            .field("filter", "has limit or after"));
        }
        self.selection()
    }
}

/// Fails for texts with a NUL character, which are never a queue or key and which some storages cannot search.
fn without_nul(fields: &[(&str, Option<&String>)]) -> ApiResult<()> {
    for (field, text) in fields {
        if text.is_some_and(|text| text.contains('\0')) {
            let problem = "contains a NUL character; leave it out";
            return Err(Problem::refused(format!("the {field} {problem}")).field(*field, problem));
        }
    }
    Ok(())
}

/// Parses words. Fails for a word that is not among the known ones.
fn parse_words<T: Copy>(
    field: &str,
    words: &[String],
    known: &[T],
    name: impl Fn(&T) -> &'static str,
) -> ApiResult<Vec<T>> {
    let find = |word: &String| {
        known.iter().find(|one| name(one) == word).copied().ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(&name).collect();
            let problem = format!("{word:?} is not one of {}", names.join(", "));
            Problem::refused(format!("the {field} {problem}")).field(field, problem)
        })
    };
    words.iter().map(find).collect()
}

/// Parses a value with the check of its type.
pub(crate) fn checked<T>(
    field: &str,
    text: Option<&String>,
    check: impl Fn(&str) -> punctual::Result<T>,
) -> ApiResult<Option<T>> {
    let read = |text: &String| {
        check(text)
            .map_err(|error| Problem::refused(error.to_string()).field(field, error.to_string()))
    };
    text.map(read).transpose()
}

/// Parses a time such as `2026-03-01T12:00:00Z`.
pub(crate) fn instant(field: &str, text: Option<&String>) -> ApiResult<Option<Timestamp>> {
    let read = |text: &String| {
        text.parse().map_err(|_| {
            let problem =
                format!("{text:?} is not a timestamp; use one such as 2026-03-01T12:00:00Z");
            Problem::refused(format!("`{field}`: {problem}")).field(field, problem)
        })
    };
    text.map(read).transpose()
}

impl From<MessageFilter> for MessageSelection {
    fn from(filter: MessageFilter) -> Self {
        Self { filter, ..Self::default() }
    }
}

impl MessageSelection {
    /// Limits the search time for one page, which may then be short.
    pub(crate) fn for_page(self) -> Self {
        Self { is_page: true, ..self }
    }

    /// Selects messages in these states.
    pub(crate) fn of_states(states: &[MessageState]) -> Self {
        MessageFilter { states: states.to_vec(), ..MessageFilter::default() }.into()
    }

    /// Returns whether the storage checks all conditions.
    pub(crate) fn is_by_storage(&self) -> bool {
        self.phases.is_empty()
            && self.error.is_none()
            && self.attempt_min == 0
            && self.since.is_none()
            && self.until.is_none()
            && self.search.is_none()
            && self.payload.is_none()
    }

    /// Returns the number of messages from counts, when only states and queues are filtered.
    pub(crate) fn count_from(&self, counts: &Counts) -> Option<u64> {
        let MessageFilter { states, queue, topic, key, job, batch, planned } = &self.filter;
        let is_narrow = topic.is_some() || key.is_some() || job.is_some() || batch.is_some();
        let matching = counts.messages.iter().filter(|((of, state), _)| {
            queue.as_ref().is_none_or(|queue| queue == of)
                && (states.is_empty() || states.contains(state))
        });
        let is_counted = !is_narrow && !planned;
        (is_counted && self.is_by_storage()).then(|| matching.map(|(_, count)| count).sum())
    }

    /// Returns whether a row of the storage matches all other conditions.
    pub(super) fn matches(&self, record: &MessageRecord, app: &App, now: Timestamp) -> bool {
        let created = record.message.created_at;
        // A redacted error is not searched, like a redacted body.
        let topic = record.message.topic.as_str();
        let error = record.error.as_deref().filter(|_| !app.redaction().hides_topic(topic));
        let error_contains =
            |part: &str| error.is_some_and(|error| error.to_lowercase().contains(part));
        (self.phases.is_empty() || self.phases.contains(&record.phase(now)))
            && record.attempt >= self.attempt_min
            && self.since.is_none_or(|since| created >= since)
            && self.until.is_none_or(|until| created < until)
            && self.error.as_deref().is_none_or(error_contains)
            && self
                .search
                .as_deref()
                .is_none_or(|part| error_contains(part) || texts_contain(&record.message, part))
            && self
                .payload
                .as_ref()
                .is_none_or(|part| part.matches(topic, &record.message.body, app.redaction()))
    }
}

/// Returns whether a text of a message contains a part. Its body and headers are not searched, which would reveal
/// redacted values.
fn texts_contain(message: &Message, part: &str) -> bool {
    let job = message.occurrence.as_ref().map(|occurrence| occurrence.job.to_string());
    let texts = [
        Some(message.id.to_string()),
        Some(message.topic.to_string()),
        Some(message.queue.to_string()),
        message.key.as_ref().map(ToString::to_string),
        message.dedupe.as_ref().map(ToString::to_string),
        job,
        message.correlation.id.as_ref().map(ToString::to_string),
    ];
    texts.into_iter().flatten().any(|text| text.to_lowercase().contains(part))
}
