//! Topic filters of claims as SQL: a condition on a message `m`, and the list it needs. A claim of every topic
//! has no condition, so its statements do not change.

use punctual::backend::storage::TopicFilter;
use punctual::model::Topic;
use punctual::serde_json;

/// Returns the condition, with the list as the parameter of this number.
pub(crate) fn condition(topics: &TopicFilter, number: usize) -> String {
    match topics {
        TopicFilter::All => "1".to_owned(),
        // Excludes topics that begin with `punctual.`: '/' is the character after '.'.
        TopicFilter::NotSystem => "(m.topic < 'punctual.' OR m.topic >= 'punctual/')".to_owned(),
        TopicFilter::Only(_) => format!("m.topic IN (SELECT value FROM json_each(?{number}))"),
    }
}

/// Returns the list as JSON, for a filter that has one.
pub(crate) fn list(topics: &TopicFilter) -> Option<String> {
    let TopicFilter::Only(topics) = topics else { return None };
    let names: serde_json::Value = topics.iter().map(Topic::as_str).collect();
    Some(names.to_string())
}
