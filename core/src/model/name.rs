//! The names people give: topics, queues, keys, jobs, transports. Each is checked once, when it is
//! made, so that no other code has to ask whether a name is empty, too long or unprintable.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::model::ProcessId;

/// The most characters a name may have.
pub const NAME_LEN_MAX: usize = 200;

/// The first character of names that Punctual keeps for itself.
const RESERVED: char = '~';

/// How the topics begin that Punctual keeps for itself: their handlers run programs, call addresses with
/// secrets and sign events, so no caller may send to them.
pub const SYSTEM_TOPICS: &str = "punctual.";
/// How the topics begin on which processes wait for replies.
const REPLIES: &str = "punctual.replies.";

/// Trims a name and checks it.
fn checked(what: &str, text: &str) -> Result<Arc<str>> {
    let trimmed = text.trim();
    check(what, trimmed)?;
    Ok(Arc::from(trimmed))
}

/// Checks a trimmed name and says what is wrong with it and what would be right.
fn check(what: &str, trimmed: &str) -> Result<()> {
    if trimmed.is_empty() {
        return Err(Error::invalid(format!(
            "a {what} must not be empty; give it at least one character"
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
            "the {what} {trimmed:?} starts with '{RESERVED}', which Punctual keeps for itself; choose another first character"
        )));
    }
    Ok(())
}

/// Checks a topic that comes from outside: one of Punctual's own is refused.
fn checked_topic(what: &str, text: &str) -> Result<Arc<str>> {
    let name = checked(what, text)?;
    if name.starts_with(SYSTEM_TOPICS) {
        return Err(Error::invalid(format!(
            "the topic {name:?} begins with {SYSTEM_TOPICS:?}, which Punctual keeps for itself; choose another name"
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

            /// The name as text.
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
    /// The name that finds a handler. Names that begin with `punctual.` belong to Punctual.
    Topic,
    "topic",
    checked_topic,
    try_from = "StoredTopic"
);
name!(
    /// What a message is about: deduplication, cancelling by topic and key, and per-key order use it.
    Key,
    "key",
    checked,
    from = "Written"
);
name!(
    /// The name of a job, unique in a storage.
    JobName,
    "job name"
);
name!(
    /// The name under which a transport was given to the builder.
    TransportName,
    "transport name"
);

/// A topic as a storage wrote it, which may be one of Punctual's own.
#[derive(Deserialize)]
struct StoredTopic(String);

impl TryFrom<StoredTopic> for Topic {
    type Error = Error;
    fn try_from(stored: StoredTopic) -> Result<Self> {
        Self::stored(stored.0)
    }
}

impl Topic {
    /// One of Punctual's own topics, such as `punctual.http`. Only code can make one: whatever reads a topic
    /// from a request, a file, a broker or a statement uses [`Topic::new`], which refuses it.
    pub fn system(text: &'static str) -> Self {
        debug_assert!(text.starts_with(SYSTEM_TOPICS), "{text:?} is not a system topic");
        Self(Arc::from(text))
    }

    /// The topic on which a process waits for replies.
    pub(crate) fn of_replies(process: ProcessId) -> Self {
        Self(Arc::from(format!("{REPLIES}{process}")))
    }

    /// The process that waits for replies on a topic of this name.
    pub(crate) fn waits_for_replies(text: &str) -> Option<ProcessId> {
        text.strip_prefix(REPLIES)?.parse().ok()
    }

    /// A topic as a storage wrote it or as a filter names it, which may be one of Punctual's own. It is not trimmed:
    /// what was stored with a blank before it, past the check of a statement or of a file, would become one of them.
    pub fn stored(text: impl AsRef<str>) -> Result<Self> {
        let text = text.as_ref();
        check("topic", text.trim())?;
        Ok(Self(Arc::from(text)))
    }

    /// Whether it is one of Punctual's own.
    pub fn is_system(&self) -> bool {
        self.0.starts_with(SYSTEM_TOPICS)
    }
}

/// What names a topic: a text, which is checked, or a topic.
pub trait IntoTopic {
    /// The topic.
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

/// A key as a storage wrote it. It may be composed of several names and longer than one, so reading it
/// back checks nothing; whoever takes a key from outside uses [`Key::new`].
#[derive(Deserialize)]
struct Written(Arc<str>);

impl From<Written> for Key {
    fn from(written: Written) -> Self {
        Self(written.0)
    }
}

impl Key {
    /// A key made of names that were checked before; it may be longer than what a user may give.
    pub(crate) fn composed(text: String) -> Self {
        Self(Arc::from(text))
    }

    /// A key as a storage wrote it; it was checked, or composed, before it was written.
    pub fn written(text: &str) -> Self {
        Self(Arc::from(text))
    }
}

/// A line in the storage from which messages are claimed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Queue(Arc<str>);

impl Queue {
    /// Checks and keeps a queue name: trimmed, not empty, at most 200 printable characters.
    pub fn new(text: impl AsRef<str>) -> Result<Self> {
        checked("queue", text.as_ref()).map(Self)
    }

    /// The line in which messages bound for a transport wait for the relay.
    pub fn of_relay(transport: &TransportName) -> Self {
        Self(Arc::from(format!("{RESERVED}relay/{transport}")))
    }

    /// The line in which a stored transport keeps one group's copy of a topic.
    pub fn of_group(topic: &Topic, group: &str) -> Self {
        Self(Arc::from(format!("{RESERVED}group/{topic}/{group}")))
    }

    /// Whether it is a line of the engine's own, which users cannot name.
    pub fn is_reserved(&self) -> bool {
        self.0.starts_with(RESERVED)
    }

    /// Whether messages wait here for a relay.
    pub fn is_relay(&self) -> bool {
        self.0.strip_prefix(RESERVED).is_some_and(|name| name.starts_with("relay/"))
    }

    /// The name as text.
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

/// Reads back what a storage wrote, reserved lines included, so it checks nothing.
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

/// How urgent a message is, 0 to 9; a higher number is claimed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Priority(u8);

impl Priority {
    /// Claimed after everything else.
    pub const LOWEST: Self = Self(0);
    /// What a message has unless it says otherwise.
    pub const NORMAL: Self = Self(5);
    /// Claimed before everything else.
    pub const HIGHEST: Self = Self(9);

    /// A priority from 0 (last) to 9 (first).
    pub fn new(level: u8) -> Result<Self> {
        if level > Self::HIGHEST.0 {
            return Err(Error::invalid(format!(
                "the priority {level} is not between 0 (last) and 9 (first)"
            )));
        }
        Ok(Self(level))
    }

    /// The level, 0 to 9.
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
            assert!(error.contains("keeps for itself; choose another name"), "{error}");
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
    fn reserved_lines_cannot_be_named_by_users() {
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
