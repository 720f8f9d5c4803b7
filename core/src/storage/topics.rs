//! Topic filter: the topics that a claim takes, so that a process never claims a message without a handler for
//! it. A message that a filter does not admit keeps its position for another process.

use std::sync::Arc;

use crate::model::Topic;

/// The most topics of one filter. A process with more handlers claims every topic and releases the messages
/// it cannot handle.
pub const FILTER_TOPICS_MAX: usize = 1_000;

/// The most messages of other topics that [`Storage::next_due`](crate::Storage::next_due) scans in each
/// priority. Behind them it returns the due time of the last message it scanned, which may be too early but is
/// never too late.
pub const NEXT_DUE_SCAN_MAX: usize = 1_000;

/// The topics that a claim takes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TopicFilter {
    /// Every topic.
    #[default]
    All,
    /// Every topic except Punctual's own, which begin with `punctual.`.
    NotSystem,
    /// These topics and no others, sorted and without duplicates; see [`TopicFilter::only`].
    Only(Arc<[Topic]>),
}

impl TopicFilter {
    /// Returns a filter that admits these topics; [`TopicFilter::All`] when there are more than
    /// [`FILTER_TOPICS_MAX`].
    pub fn only(topics: impl IntoIterator<Item = Topic>) -> Self {
        let mut topics: Vec<Topic> = topics.into_iter().collect();
        topics.sort_unstable();
        topics.dedup();
        if topics.len() > FILTER_TOPICS_MAX { Self::All } else { Self::Only(Arc::from(topics)) }
    }

    /// Returns whether a claim with this filter may take a message of a topic.
    pub fn admits(&self, topic: &Topic) -> bool {
        match self {
            Self::All => true,
            Self::NotSystem => !topic.is_system(),
            Self::Only(topics) => topics.binary_search(topic).is_ok(),
        }
    }

    /// Returns whether it admits every topic.
    pub fn is_all(&self) -> bool {
        *self == Self::All
    }

    /// Returns whether it admits no topic at all.
    pub fn is_none(&self) -> bool {
        matches!(self, Self::Only(topics) if topics.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(name: &str) -> Topic {
        Topic::stored(name).unwrap()
    }

    #[test]
    fn a_filter_admits_the_topics_it_names() {
        let only = TopicFilter::only([topic("mail"), topic("fax"), topic("mail")]);
        for (filter, mail, fax, text, system) in [
            (TopicFilter::All, true, true, true, true),
            (TopicFilter::NotSystem, true, true, true, false),
            (only, true, true, false, false),
            (TopicFilter::only([topic("punctual.http")]), false, false, false, false),
            (TopicFilter::only([]), false, false, false, false),
        ] {
            let admitted = ["mail", "fax", "text", "punctual.command"].map(topic);
            let admitted = admitted.map(|topic| filter.admits(&topic));
            assert_eq!(admitted, [mail, fax, text, system], "{filter:?}");
        }
        assert!(TopicFilter::only([]).is_none() && !TopicFilter::All.is_none());
    }

    #[test]
    fn a_filter_of_too_many_topics_admits_all() {
        let many = |count: usize| TopicFilter::only((0..count).map(|n| topic(&format!("t{n}"))));
        assert!(!many(FILTER_TOPICS_MAX).is_all());
        assert!(many(FILTER_TOPICS_MAX + 1).is_all());
    }
}
