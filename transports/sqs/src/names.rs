//! Queue names: `<prefix>-<topic>-<group>`, with `-dead` and `-invalid` for the two other queues. SQS allows
//! letters, digits, `-` and `_` only, so a dot is written as `__` and everything else as `_` and two hex digits
//! for each byte, the dash as well: it separates the parts, and no part contains one.

use std::fmt::Write as _;

use punctual::model::Topic;
use punctual::{Error, Result};

/// Longest name of a queue.
const NAME_MAX: usize = 80;
/// Longest prefix, which leaves enough for the rest.
const PREFIX_MAX: usize = 40;
const DEAD: &str = "-dead";
const INVALID: &str = "-invalid";

/// Builds and parses queue names.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    prefix: String,
}

/// Names of the three queues of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupNames {
    pub(crate) queue: String,
    pub(crate) dead: String,
    pub(crate) invalid: String,
}

impl Names {
    pub(crate) fn new(prefix: String) -> Result<Self> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if prefix.is_empty() || prefix.len() > PREFIX_MAX || !prefix.bytes().all(fits) {
            return Err(Error::invalid(format!(
                "the prefix {prefix:?} must have 1 to {PREFIX_MAX} letters, digits, '-' and '_'"
            )));
        }
        Ok(Self { prefix })
    }

    /// Returns the prefix of all queue names.
    pub(crate) fn prefix(&self) -> String {
        format!("{}-", self.prefix)
    }

    /// Returns the prefix of a topic's queue names.
    pub(crate) fn of_topic(&self, topic: &Topic) -> String {
        format!("{}-{}-", self.prefix, encode(topic.as_str()))
    }

    /// Returns the queue names of a group.
    pub(crate) fn of_group(&self, topic: &Topic, group: &str) -> Result<GroupNames> {
        if group.is_empty() || group.chars().any(char::is_control) {
            return Err(Error::invalid(format!(
                "the group {group:?} must have at least one character, and printable ones only"
            )));
        }
        let queue = self.of_topic(topic) + &encode(group);
        if queue.len() + INVALID.len() > NAME_MAX {
            let most = NAME_MAX - INVALID.len();
            return Err(Error::invalid(format!(
                "the queue of topic {topic} and group {group:?} would be called {queue}, which has {} characters and SQS allows {most}; use shorter names or a shorter prefix",
                queue.len()
            )));
        }
        let (dead, invalid) = (format!("{queue}{DEAD}"), format!("{queue}{INVALID}"));
        Ok(GroupNames { queue, dead, invalid })
    }

    /// Returns topic and group of a queue; none for dead letters and for foreign queues.
    pub(crate) fn parse(&self, name: &str) -> Option<(Topic, String)> {
        let rest = name.strip_prefix(&self.prefix)?.strip_prefix('-')?;
        let (topic, group) = rest.split_once('-')?;
        Some((Topic::stored(decode(topic)?).ok()?, decode(group)?))
    }
}

/// Returns the name of the queue at a URL.
pub(crate) fn name_of(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or(url)
}

fn encode(part: &str) -> String {
    let mut name = String::with_capacity(part.len());
    for byte in part.bytes() {
        match byte {
            b'.' => name.push_str("__"),
            byte if byte.is_ascii_alphanumeric() => name.push(char::from(byte)),
            byte => _ = write!(name, "_{byte:02X}"),
        }
    }
    name
}

fn decode(name: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'_' => match rest.next()? {
                b'_' => b'.',
                high => digit(high)? * 16 + digit(rest.next()?)?,
            },
            byte if byte.is_ascii_alphanumeric() => byte,
            _ => return None,
        });
    }
    String::from_utf8(bytes).ok()
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names::new("app-1".to_owned()).unwrap()
    }

    #[test]
    fn any_names_of_queues_read_back() {
        for topic in ["mail", "mail.sent", "a-b", "a_b", "a.b-c_d", "x__y", "a-dead"] {
            let topic = Topic::new(topic).unwrap();
            for group in ["office", "two words", "büro", "dead", "-", "_2E", "a/b"] {
                let GroupNames { queue, dead, invalid } = names().of_group(&topic, group).unwrap();
                let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
                assert!(queue.bytes().all(allowed), "{queue}");
                assert!(queue.starts_with(&names().of_topic(&topic)), "{queue}");
                assert_eq!(names().parse(&queue), Some((topic.clone(), group.to_owned())));
                assert_eq!((names().parse(&dead), names().parse(&invalid)), (None, None));
            }
        }
        let queue = names().of_group(&Topic::new("mail.sent").unwrap(), "office").unwrap();
        assert_eq!(queue.queue, "app-1-mail__sent-office");
        assert_eq!(queue.dead, "app-1-mail__sent-office-dead");
    }

    #[test]
    fn foreign_names_are_not_read() {
        for name in ["app-1", "app-1-mail", "app-2-mail-office", "app-1-ma_il-office", "app-1--x"] {
            assert_eq!(names().parse(name), None, "{name}");
        }
    }

    #[test]
    fn names_that_do_not_fit_are_refused_by_value() {
        let topic = Topic::new("t".repeat(60)).unwrap();
        let error = names().of_group(&topic, "office").unwrap_err().to_string();
        assert!(error.contains("office") && error.contains("shorter"), "{error}");
        for prefix in ["", "a b", &"p".repeat(41)] {
            assert!(Names::new(prefix.to_owned()).is_err(), "{prefix}");
        }
    }
}
