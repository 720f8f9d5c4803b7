//! Names given by people: topics, queues, keys, jobs, transports. Each is checked once, on creation, so that no
//! other code has to check for an empty, long or unprintable name.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::model::ProcessId;

/// Group that receives messages published before any group has subscribed.
pub const GROUP_DEFAULT: &str = "default";
/// Largest length of a name in characters.
pub const NAME_LEN_MAX: usize = 200;

/// First character of names that Punctual reserves.
const RESERVED: char = '~';

/// Prefix of the topics that Punctual reserves: their handlers run programs, call addresses with secrets and
/// sign events, so no caller may send to them.
pub const SYSTEM_TOPICS: &str = "punctual.";
/// Prefix of the topics on which processes wait for replies.
const REPLIES: &str = "punctual.replies.";

/// Trims a name and checks it.
fn checked(what: &str, text: &str) -> Result<Arc<str>> {
    let trimmed = text.trim();
    check(what, trimmed)?;
    Ok(Arc::from(trimmed))
}

/// Fails when a trimmed name is not valid.
fn check(what: &str, trimmed: &str) -> Result<()> {
    if trimmed.is_empty() {
        return Err(Error::invalid(format!(
            "a {what} must not be empty; use at least one character"
        )));
    }
    let length = trimmed.chars().count();
    if length > NAME_LEN_MAX {
        let start: String = trimmed.chars().take(20).collect();
        return Err(Error::invalid(format!(
            "the {what} \"{start}...\" has {length} characters; at most {NAME_LEN_MAX} are allowed"
        )));
    }
    if let Some((index, found)) = trimmed.chars().enumerate().find(|(_, c)| c.is_control()) {
        return Err(Error::invalid(format!(
            "the {what} {trimmed:?} holds the control character {found:?} at position {}; use printable characters",
            index + 1
        )));
    }
    if trimmed.starts_with(RESERVED) {
        return Err(Error::invalid(format!(
            "the {what} {trimmed:?} starts with '{RESERVED}', which is reserved; choose another first character"
        )));
    }
    Ok(())
}

/// Trims and checks a topic from outside: reserved ones are refused.
fn checked_topic(what: &str, text: &str) -> Result<Arc<str>> {
    let name = checked(what, text)?;
    if name.starts_with(SYSTEM_TOPICS) {
        return Err(Error::invalid(format!(
            "the topic {name:?} begins with {SYSTEM_TOPICS:?}, which is reserved; choose another name"
        )));
    }
    Ok(name)
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $what:literal) => {
        name!($(#[$doc])* $type, $what, checked, try_from = "String");
    };
    ($(#[$doc:meta])* $type:ident, $what:literal, $checked:ident, $($read:tt)*) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde($($read)*, into = "String")]
        pub struct $type(Arc<str>);

        impl $type {
            #[doc = concat!("Checks and keeps a ", $what, ": trimmed, not empty, at most 200 printable characters.")]
            pub fn new(text: impl AsRef<str>) -> Result<Self> {
                $checked($what, text.as_ref()).map(Self)
            }

            /// Returns the name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl TryFrom<String> for $type {
            type Error = Error;
            fn try_from(text: String) -> Result<Self> {
                Self::new(text)
            }
        }

        impl TryFrom<&str> for $type {
            type Error = Error;
            fn try_from(text: &str) -> Result<Self> {
                Self::new(text)
            }
        }

        impl TryFrom<&String> for $type {
            type Error = Error;
            fn try_from(text: &String) -> Result<Self> {
                Self::new(text)
            }
        }

        impl TryFrom<&$type> for $type {
            type Error = Error;
            fn try_from(name: &$type) -> Result<Self> {
                Ok(name.clone())
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> Self {
                name.0.to_string()
            }
        }
    };
}

name!(
    /// Name that selects a handler. Names that begin with `punctual.` are reserved.
    Topic,
    "topic",
    checked_topic,
    try_from = "StoredTopic"
);
name!(
    /// Subject of a message: used for deduplication, for cancelling by topic and key, and for order per key.
    Key,
    "key",
    checked,
    from = "StoredKey"
);
name!(
    /// Name of a job, unique in a storage.
    JobName,
    "job name"
);
name!(
    /// Name of a transport in the builder.
    TransportName,
    "transport name"
);

/// Topic from a storage, which may be a reserved one.
#[derive(Deserialize)]
struct StoredTopic(String);

impl TryFrom<StoredTopic> for Topic {
    type Error = Error;
    fn try_from(stored: StoredTopic) -> Result<Self> {
        Self::stored(stored.0)
    }
}

impl Topic {
    /// Returns a reserved topic, such as `punctual.http`. Only code can create one: topics from a request, a
    /// file, a broker or a statement are created by [`Topic::new`], which refuses reserved ones.
    pub fn system(text: &'static str) -> Self {
        debug_assert!(text.starts_with(SYSTEM_TOPICS), "{text:?} is not a system topic");
        Self(Arc::from(text))
    }

    /// Returns the topic on which a process waits for replies.
    pub(crate) fn of_replies(process: ProcessId) -> Self {
        Self(Arc::from(format!("{REPLIES}{process}")))
    }

    /// Returns the process that waits for replies on a topic of this name.
    pub(crate) fn replies_process(text: &str) -> Option<ProcessId> {
        text.strip_prefix(REPLIES)?.parse().ok()
    }

    /// Returns a topic from a storage or a filter, which may be a reserved one. It is not trimmed: a topic that
    /// was stored with a leading blank, past the check of a statement or of a file, would become a reserved
    /// one.
    pub fn stored(text: impl AsRef<str>) -> Result<Self> {
        let text = text.as_ref();
        check("topic", text.trim())?;
        Ok(Self(Arc::from(text)))
    }

    /// Returns whether it is reserved.
    pub fn is_system(&self) -> bool {
        self.0.starts_with(SYSTEM_TOPICS)
    }
}

/// Conversion into a topic: from text, which is checked, or from a topic.
pub trait IntoTopic {
    /// Returns the topic.
    fn into_topic(self) -> Result<Topic>;
}

impl<T: AsRef<str>> IntoTopic for T {
    fn into_topic(self) -> Result<Topic> {
        Topic::new(self)
    }
}

impl IntoTopic for Topic {
    fn into_topic(self) -> Result<Topic> {
        Ok(self)
    }
}

impl IntoTopic for &Topic {
    fn into_topic(self) -> Result<Topic> {
        Ok(self.clone())
    }
}

/// Key from a storage. It may be composed of several names and longer than one, so it is not checked; keys from
/// outside are created by [`Key::new`].
#[derive(Deserialize)]
struct StoredKey(Arc<str>);

impl From<StoredKey> for Key {
    fn from(stored: StoredKey) -> Self {
        Self(stored.0)
    }
}

impl Key {
    /// Returns a key composed of checked names; it may be longer than a key from outside.
    pub(crate) fn composed(text: String) -> Self {
        Self(Arc::from(text))
    }

    /// Returns a key from a storage, which was checked or composed before it was stored.
    pub fn stored(text: &str) -> Self {
        Self(Arc::from(text))
    }
}

/// Queue in a storage, from which messages are claimed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Queue(Arc<str>);

impl Queue {
    /// Checks and keeps a queue name: trimmed, not empty, at most 200 printable characters.
    pub fn new(text: impl AsRef<str>) -> Result<Self> {
        checked("queue", text.as_ref()).map(Self)
    }

    /// Returns the queue of messages that the relay sends to a transport.
    pub fn of_relay(transport: &TransportName) -> Self {
        Self(Arc::from(format!("{RESERVED}relay/{transport}")))
    }

    /// Returns the queue in which a stored transport keeps one group's copy of a topic.
    pub fn of_group(topic: &Topic, group: &str) -> Self {
        Self(Arc::from(format!("{RESERVED}group/{topic}/{group}")))
    }

    /// Returns whether it is a reserved queue, which users cannot name.
    pub fn is_reserved(&self) -> bool {
        self.0.starts_with(RESERVED)
    }

    /// Returns the transport to which the relay sends its messages.
    pub(super) fn relay_transport(&self) -> Option<TransportName> {
        let name = self.0.strip_prefix(RESERVED)?.strip_prefix("relay/")?;
        TransportName::new(name).ok()
    }

    /// Returns whether its messages wait for a relay.
    pub fn is_relay(&self) -> bool {
        self.0.strip_prefix(RESERVED).is_some_and(|name| name.starts_with("relay/"))
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Queue {
    fn default() -> Self {
        Self(Arc::from("default"))
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl TryFrom<&str> for Queue {
    type Error = Error;
    fn try_from(text: &str) -> Result<Self> {
        Self::new(text)
    }
}

impl TryFrom<&Queue> for Queue {
    type Error = Error;
    fn try_from(queue: &Queue) -> Result<Self> {
        Ok(queue.clone())
    }
}

/// Reads a queue from a storage without checks, because reserved ones are valid there.
impl From<String> for Queue {
    fn from(text: String) -> Self {
        Self(Arc::from(text))
    }
}

impl From<Queue> for String {
    fn from(queue: Queue) -> Self {
        queue.0.to_string()
    }
}

/// Priority of a message, 0 to 9; a higher number is claimed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Priority(u8);

impl Priority {
    /// Claimed last.
    pub const LOWEST: Self = Self(0);
    /// Default.
    pub const NORMAL: Self = Self(5);
    /// Claimed first.
    pub const HIGHEST: Self = Self(9);

    /// Returns a priority from 0 (last) to 9 (first).
    pub fn new(level: u8) -> Result<Self> {
        if level > Self::HIGHEST.0 {
            return Err(Error::invalid(format!(
                "the priority {level} is not between 0 (last) and 9 (first)"
            )));
        }
        Ok(Self(level))
    }

    /// Returns the level, 0 to 9.
    pub fn level(self) -> u8 {
        self.0
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self::NORMAL
    }
}

impl TryFrom<u8> for Priority {
    type Error = Error;
    fn try_from(level: u8) -> Result<Self> {
        Self::new(level)
    }
}

impl From<Priority> for u8 {
    fn from(priority: Priority) -> Self {
        priority.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: T-53
    #[test]
    fn names_are_trimmed_and_checked_when_made() {
        assert_eq!(JobName::new("  nightly report ").unwrap().as_str(), "nightly report");
        for bad in ["", "   ", "a\0b", "line\nbreak", "~relay/kafka"] {
            let error = Topic::new(bad).unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Invalid, "{bad:?}");
        }
        assert!(Topic::new("ä".repeat(200)).is_ok());
        let error = Topic::new("x".repeat(201)).unwrap_err().to_string();
        assert!(error.contains("201 characters") && error.contains("at most 200"), "{error}");
    }

    #[test]
    fn topics_of_punctual_cannot_be_named_from_outside() {
        let own = Topic::system("punctual.command");
        assert!(own.is_system() && own.as_str() == "punctual.command");
        for text in ["punctual.command", "  punctual.http", "punctual.", "punctual.replies.7"] {
            let error = Topic::new(text).unwrap_err().to_string();
            assert!(error.contains("is reserved; choose another name"), "{error}");
        }
        assert!(Topic::new("punctual").is_ok() && Topic::new("punctually.late").is_ok());
        let read: Topic = serde_json::from_str("\"punctual.command\"").unwrap();
        assert_eq!((read, Topic::stored("punctual.command").unwrap()), (own.clone(), own));
    }

    // The SQL function of PostgreSQL trims fewer blanks than `Topic::new`.
    #[test]
    fn a_topic_that_was_stored_with_a_blank_does_not_become_one_of_punctual() {
        for blank in ["\u{a0}", "\u{2003}", "\u{3000}", " ", "\t"] {
            let text = format!("{blank}punctual.command");
            let stored = Topic::stored(&text).unwrap();
            let read: Topic = serde_json::from_value(text.as_str().into()).unwrap();
            assert_eq!((stored.as_str(), read.as_str()), (&*text, &*text));
            assert!(!stored.is_system() && stored != Topic::system("punctual.command"));
            assert!(Topic::new(&text).is_err(), "{text:?} from outside");
        }
        assert!(Topic::stored("\u{a0}").is_err());
    }

    #[test]
    fn an_error_names_the_position_of_a_control_character() {
        let error = Key::new("ab\u{7}c").unwrap_err().to_string();
        assert!(error.contains("position 3"), "{error}");
    }

    #[test]
    fn reserved_queues_cannot_be_named_by_users() {
        let relay = Queue::of_relay(&TransportName::new("kafka").unwrap());
        assert_eq!(relay.as_str(), "~relay/kafka");
        assert!(Queue::new(relay.as_str()).is_err());
    }

    #[test]
    fn priorities_end_at_nine_and_nine_is_first() {
        assert!(Priority::new(10).is_err());
        assert!(Priority::HIGHEST > Priority::NORMAL && Priority::NORMAL > Priority::LOWEST);
    }
}
