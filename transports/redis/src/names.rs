//! Names of streams on the server, and positions of entries in them. A topic is one stream that all groups read; each group
//! has a stream of its own for messages requeued for that group, and two for its dead letters.
//!
//! A topic's name cannot begin with `~` and a group's cannot contain `/`, so no two of these names are equal.

use std::fmt;

use punctual::model::{NAME_LEN_MAX, Topic};
use punctual::{Error, Result};
use redis::{RedisWrite, ToRedisArgs};

/// Streams of one topic and one group.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    /// Stream that every group of the topic reads.
    pub(crate) shared: String,
    /// Stream that only this group reads.
    pub(crate) own: String,
    /// Dead letters of this group.
    pub(crate) dead: String,
    /// Unreadable messages of this group.
    pub(crate) invalid: String,
}

impl Streams {
    pub(crate) fn of(prefix: &str, topic: &Topic, group: &str) -> Self {
        Self {
            shared: shared(prefix, topic),
            own: own(prefix, topic, group),
            dead: format!("{prefix}:{topic}.{group}.dead"),
            invalid: format!("{prefix}:{topic}.{group}.invalid"),
        }
    }

    pub(crate) fn key(&self, kind: StreamKind) -> &str {
        match kind {
            StreamKind::Shared => &self.shared,
            StreamKind::Own => &self.own,
        }
    }

    pub(crate) fn kind_of(&self, key: &[u8]) -> Option<StreamKind> {
        StreamKind::ALL.into_iter().find(|kind| self.key(*kind).as_bytes() == key)
    }
}

/// Returns the name of a topic's stream.
pub(crate) fn shared(prefix: &str, topic: &Topic) -> String {
    format!("{prefix}:{topic}")
}

/// Returns the name of the stream for one group of a topic.
pub(crate) fn own(prefix: &str, topic: &Topic, group: &str) -> String {
    format!("{prefix}:~{group}/{topic}")
}

/// Returns the topic of a stream name.
pub(crate) fn topic_of(prefix: &str, key: &str) -> Option<Topic> {
    let name = key.strip_prefix(prefix)?.strip_prefix(':')?;
    Topic::stored(name).ok().filter(|topic| topic.as_str() == name)
}

/// Refuses a group whose name would be ambiguous in a stream name.
pub(crate) fn check_group(group: &str) -> Result<()> {
    let fits = !group.is_empty() && group.chars().count() <= NAME_LEN_MAX;
    if !fits || group.chars().any(|letter| letter.is_control() || letter == '/') {
        return Err(Error::invalid(format!(
            "the group {group:?} must have 1 to {NAME_LEN_MAX} printable characters and no '/'"
        )));
    }
    Ok(())
}

/// Kind of stream that a group reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum StreamKind {
    /// Stream of the topic.
    Shared,
    /// Stream of the group alone.
    Own,
}

impl StreamKind {
    pub(crate) const ALL: [Self; 2] = [Self::Shared, Self::Own];
}

/// Id of an entry in its stream: the server's time in milliseconds, and a sequence number within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct EntryId {
    pub(crate) millisecond: u64,
    pub(crate) sequence: u64,
}

impl EntryId {
    /// Id before all entries.
    pub(crate) const FIRST: Self = Self { millisecond: 0, sequence: 0 };

    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let (millisecond, sequence) = str::from_utf8(text).ok()?.split_once('-')?;
        Some(Self { millisecond: millisecond.parse().ok()?, sequence: sequence.parse().ok()? })
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.millisecond, self.sequence)
    }
}

impl ToRedisArgs for EntryId {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        out.write_arg_fmt(self);
    }
}

/// Position of an entry: one of a group's two streams, and the id in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EntryPosition {
    pub(crate) kind: StreamKind,
    pub(crate) id: EntryId,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_two_groups_or_topics_are_never_equal() {
        let topic = |name: &str| Topic::new(name).unwrap();
        let own_of = |name: &str, group: &str| own("p", &topic(name), group);
        assert_ne!(own_of("b/c", "a"), own_of("c", "a b"));
        assert_ne!(own_of("orders", "a"), shared("p", &topic("a/orders")));
        assert!(check_group("a/b").is_err() && check_group("").is_err());
        check_group("billing").unwrap();
    }

    #[test]
    fn only_streams_of_topics_are_topics() {
        let topic = Topic::new("orders:new").unwrap();
        assert_eq!(topic_of("p", &shared("p", &topic)), Some(topic.clone()));
        assert_eq!(topic_of("p", &own("p", &topic, "a")), None);
        assert_eq!(topic_of("p", "q:orders"), None);
        assert_eq!(topic_of("p", "p2:orders"), None);
    }

    #[test]
    fn ids_round_trip_and_sort_by_number() {
        let id = EntryId::parse(b"1526919030474-55").unwrap();
        assert_eq!(id.to_string(), "1526919030474-55");
        assert!(id > EntryId::parse(b"1526919030474-6").unwrap());
        assert_eq!(EntryId::parse(b"x-1"), None);
    }
}
