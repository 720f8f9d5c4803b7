//! Names on the broker: subjects, streams and consumers, derived from topics and groups. A topic always has the same
//! names, and two topics never share one.
//!
//! Subjects stay readable, because other clients use them too: `orders.created` is the subject
//! `punctual.orders.created`. Characters that NATS forbids are encoded as `=` and two hexadecimal digits; percent
//! signs too, because some brokers treat one in a name as a placeholder.

use std::fmt::Write as _;

use punctual::{Error, Result};

/// The broker refuses names of 256 bytes and more; this leaves room for the prefix.
const NAME_MAX: usize = 200;
const PREFIX_MAX: usize = 40;
/// Suffix of a dead-letter topic.
const DEAD: &str = ".dead";
/// Suffix of the topic of unreadable messages.
const INVALID: &str = ".invalid";

/// Derives names under one prefix.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    prefix: String,
}

impl Names {
    /// Checks a prefix. Underscores are refused, because one ends the prefix in the names of streams.
    pub(crate) fn new(prefix: &str) -> Result<Self> {
        let fits = (1..=PREFIX_MAX).contains(&prefix.len());
        if !fits || !prefix.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(Error::invalid(format!(
                "the prefix {prefix:?} is invalid; use 1 to {PREFIX_MAX} letters, digits and hyphens"
            )));
        }
        Ok(Self { prefix: prefix.to_owned() })
    }

    /// Returns the subject of a topic.
    pub(crate) fn subject(&self, topic: &str) -> String {
        format!("{}.{}", self.prefix, shortened(escaped(topic, DotEncoding::Between)))
    }

    /// Returns the name of the stream of a topic.
    pub(crate) fn stream(&self, topic: &str) -> String {
        format!("{}_{}", self.prefix, shortened(escaped(topic, DotEncoding::Never)))
    }

    /// Returns the name of the durable consumer of a group.
    pub(crate) fn consumer(group: &str) -> Result<String> {
        if group.is_empty() || group.chars().any(char::is_control) {
            return Err(Error::invalid(format!(
                "the group {group:?} is invalid; use at least one character, all of them printable"
            )));
        }
        Ok(shortened(escaped(group, DotEncoding::Never)))
    }

    /// Whether a stream is under this prefix.
    pub(crate) fn owns(&self, stream: &str) -> bool {
        stream.split_once('_').is_some_and(|(prefix, _)| prefix == self.prefix)
    }
}

/// Returns the topic of the dead letters of a topic, or of its unreadable messages.
///
/// It may exceed the maximum length of a topic: a topic of the full length must be able to have dead letters.
pub(crate) fn dead_topic(topic: &str, is_invalid: bool) -> String {
    format!("{topic}{}", if is_invalid { INVALID } else { DEAD })
}

/// Whether a topic is a dead-letter topic.
pub(crate) fn is_dead_topic(topic: &str) -> bool {
    [DEAD, INVALID].iter().any(|ending| topic.ends_with(ending))
}

#[derive(Clone, Copy, PartialEq)]
enum DotEncoding {
    /// Dots separate the tokens of a subject, unless a token would be empty.
    Between,
    Never,
}

fn escaped(text: &str, dots: DotEncoding) -> String {
    let bytes = text.as_bytes();
    let mut escaped = String::with_capacity(text.len());
    for (index, byte) in bytes.iter().enumerate() {
        let separates = || {
            let is_token = |at: Option<&u8>| at.is_some_and(|byte| *byte != b'.');
            let before = index.checked_sub(1).and_then(|before| bytes.get(before));
            dots == DotEncoding::Between && is_token(before) && is_token(bytes.get(index + 1))
        };
        let stays = match byte {
            b'.' => separates(),
            b'*' | b'>' | b'=' | b'%' | b'/' | b'\\' => false,
            _ => byte.is_ascii_graphic(),
        };
        if stays {
            escaped.push(char::from(*byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(escaped, "={byte:02X}");
        }
    }
    escaped
}

/// Shortens a name that is too long; it ends with a hash of the whole.
fn shortened(name: String) -> String {
    if name.len() <= NAME_MAX {
        return name;
    }
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let start = name.get(..NAME_MAX - 17).unwrap_or_default().trim_end_matches('.');
    format!("{start}~{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_stay_readable_and_never_contain_forbidden_characters() {
        let names = Names::new("shop").unwrap();
        for (text, subject, stream) in [
            ("orders.created", "shop.orders.created", "shop_orders=2Ecreated"),
            ("a b*>%=", "shop.a=20b=2A=3E=25=3D", "shop_a=20b=2A=3E=25=3D"),
            (".a..b.", "shop.=2Ea=2E=2Eb=2E", "shop_=2Ea=2E=2Eb=2E"),
            ("żółw", "shop.=C5=BC=C3=B3=C5=82w", "shop_=C5=BC=C3=B3=C5=82w"),
            ("a/b\\c", "shop.a=2Fb=5Cc", "shop_a=2Fb=5Cc"),
        ] {
            assert_eq!(names.subject(text), subject);
            assert_eq!(names.stream(text), stream);
        }
        assert!(names.owns("shop_a") && !names.owns("shops_a") && !names.owns("shop"));
    }

    #[test]
    fn long_names_fit_and_stay_distinct() {
        let names = Names::new("p").unwrap();
        let (one, other) = ("ż".repeat(200), format!("{}x", "ż".repeat(199)));
        assert!(names.stream(&one).len() < 255);
        assert_ne!(names.stream(&one), names.stream(&other));
        assert!(!names.subject(&"a.".repeat(150)).contains(".~"));
    }

    #[test]
    fn invalid_prefixes_and_groups_are_refused_by_name() {
        for prefix in ["", "a_b", "a.b", "a b", &"x".repeat(41)] {
            let error = Names::new(prefix).unwrap_err().to_string();
            assert!(error.contains("prefix"), "{error}");
        }
        assert!(Names::consumer("").is_err());
        assert_eq!(Names::consumer("mail.eu").unwrap(), "mail=2Eeu");
    }

    #[test]
    fn dead_letters_have_their_own_topics() {
        let dead = dead_topic("orders", false);
        assert_eq!(dead, "orders.dead");
        assert_eq!(dead_topic("orders", true), "orders.invalid");
        assert!(is_dead_topic(&dead) && !is_dead_topic("orders"));
    }
}
