//! Topic filters of claims and due-time queries, as parameters of a statement.

use punctual::backend::storage::{TopicFilter, WakeSource};
use punctual::model::Topic;

/// Topic filter of a claim as parameters.
pub(crate) struct TopicParams<'a> {
    /// Accepted topics; none for all of them.
    pub(crate) only: Option<Vec<&'a str>>,
    /// Whether topics of Punctual itself are excluded.
    pub(crate) not_system: bool,
}

impl<'a> TopicParams<'a> {
    pub(crate) fn of(topics: &'a TopicFilter) -> Self {
        let only = match topics {
            TopicFilter::Only(topics) => Some(topics.iter().map(Topic::as_str).collect()),
            TopicFilter::All | TopicFilter::NotSystem => None,
        };
        Self { only, not_system: *topics == TopicFilter::NotSystem }
    }
}

/// Returns whether a due-time query excludes the topics of Punctual itself, and the topics it accepts, as the
/// keys of a JSON object in which a topic is found quickly; none for all of them.
pub(crate) fn due_filter(source: &WakeSource) -> (bool, Option<String>) {
    let WakeSource::Topics(_, topics) = source else { return (false, None) };
    let TopicParams { only, not_system } = TopicParams::of(topics);
    let Some(only) = only else { return (not_system, None) };
    let keys = only.into_iter().map(|topic| (topic.to_owned(), serde_json::Value::Null));
    (not_system, Some(serde_json::Value::Object(keys.collect()).to_string()))
}
