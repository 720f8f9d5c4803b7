//! The topic filter of a claim or a look as parameters of a statement.

use punctual::model::Topic;
use punctual::storage::{Line, TopicFilter};

/// The filter of a claim.
pub(crate) struct Topics<'a> {
    /// The topics that are taken; nothing for all of them.
    pub(crate) only: Option<Vec<&'a str>>,
    /// Whether Punctual's own are left.
    pub(crate) not_system: bool,
}

impl<'a> Topics<'a> {
    pub(crate) fn of(topics: &'a TopicFilter) -> Self {
        let only = match topics {
            TopicFilter::Only(topics) => Some(topics.iter().map(Topic::as_str).collect()),
            TopicFilter::All | TopicFilter::NotSystem => None,
        };
        Self { only, not_system: *topics == TopicFilter::NotSystem }
    }
}

/// Returns whether a look at a line leaves Punctual's own topics out, and which topics it takes, as the keys
/// of a JSON object in which each is found quickly; nothing for all of them.
pub(crate) fn looked_for(line: &Line) -> (bool, Option<String>) {
    let Line::Topics(_, topics) = line else { return (false, None) };
    let Topics { only, not_system } = Topics::of(topics);
    let Some(only) = only else { return (not_system, None) };
    let keys = only.into_iter().map(|topic| (topic.to_owned(), serde_json::Value::Null));
    (not_system, Some(serde_json::Value::Object(keys.collect()).to_string()))
}
