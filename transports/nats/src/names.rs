//! What things are called on the broker: subjects, streams and consumers, from topics and groups. Every
//! name is the same for the same topic, and two topics never share one.
//!
//! Subjects stay readable, because others publish and listen there too: `orders.created` is the subject
//! `punctual.orders.created`. What NATS does not allow is written as `=` and two hexadecimal digits;
//! a percent sign too, because some brokers take one in a name for a place to fill in.

use std::fmt::Write as _;

use punctual::{Error, Result};

/// The broker refuses names of 256 bytes and more; this leaves room for the prefix.
const NAME_MAX: usize = 200;
const PREFIX_MAX: usize = 40;
/// How the topic of dead letters ends.
const DEAD: &str = ".dead";
/// How the topic of what cannot be read ends.
const INVALID: &str = ".invalid";

/// Makes the names under one prefix.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    prefix: String,
}

impl Names {
    /// Checks a prefix. Without underscores, because one ends it in the names of streams.
    pub(crate) fn new(prefix: &str) -> Result<Self> {
        let fits = (1..=PREFIX_MAX).contains(&prefix.len());
        if !fits || !prefix.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(Error::invalid(format!(
                "the prefix {prefix:?} must have 1 to {PREFIX_MAX} letters, digits and hyphens"
            )));
        }
        Ok(Self { prefix: prefix.to_owned() })
    }

    /// Where messages of a topic are published.
    pub(crate) fn subject(&self, topic: &str) -> String {
        format!("{}.{}", self.prefix, shortened(escaped(topic, Dots::Between)))
    }

    /// The stream that keeps them.
    pub(crate) fn stream(&self, topic: &str) -> String {
        format!("{}_{}", self.prefix, shortened(escaped(topic, Dots::Never)))
    }

    /// The durable consumer of a group.
    pub(crate) fn consumer(group: &str) -> Result<String> {
        if group.is_empty() || group.chars().any(char::is_control) {
            return Err(Error::invalid(format!(
                "the group {group:?} must have at least one character, all of them printable"
            )));
        }
        Ok(shortened(escaped(group, Dots::Never)))
    }

    /// Whether a stream is under this prefix.
    pub(crate) fn owns(&self, stream: &str) -> bool {
        stream.split_once('_').is_some_and(|(prefix, _)| prefix == self.prefix)
    }
}

/// Where dead letters of a topic are kept, or what of it cannot be read.
///
/// It may be longer than a topic may be: a name of the full length must not keep its letters from dying.
pub(crate) fn dead_topic(topic: &str, is_invalid: bool) -> String {
    format!("{topic}{}", if is_invalid { INVALID } else { DEAD })
}

/// Whether a topic is one of those.
pub(crate) fn is_dead_topic(topic: &str) -> bool {
    [DEAD, INVALID].iter().any(|ending| topic.ends_with(ending))
}

#[derive(Clone, Copy, PartialEq)]
enum Dots {
    /// They separate the tokens of a subject, unless a token would be empty.
    Between,
    Never,
}

fn escaped(text: &str, dots: Dots) -> String {
    let bytes = text.as_bytes();
    let mut escaped = String::with_capacity(text.len());
    for (index, byte) in bytes.iter().enumerate() {
        let separates = || {
            let is_token = |at: Option<&u8>| at.is_some_and(|byte| *byte != b'.');
            let before = index.checked_sub(1).and_then(|before| bytes.get(before));
            dots == Dots::Between && is_token(before) && is_token(bytes.get(index + 1))
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

/// Names that would be too long end with a hash of the whole.
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
    fn subjects_stay_readable_and_never_hold_what_nats_forbids() {
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
    fn long_names_fit_and_stay_apart() {
        let names = Names::new("p").unwrap();
        let (one, other) = ("ż".repeat(200), format!("{}x", "ż".repeat(199)));
        assert!(names.stream(&one).len() < 255);
        assert_ne!(names.stream(&one), names.stream(&other));
        assert!(!names.subject(&"a.".repeat(150)).contains(".~"));
    }

    #[test]
    fn bad_prefixes_and_groups_are_refused_by_name() {
        for prefix in ["", "a_b", "a.b", "a b", &"x".repeat(41)] {
            let error = Names::new(prefix).unwrap_err().to_string();
            assert!(error.contains("prefix"), "{error}");
        }
        assert!(Names::consumer("").is_err());
        assert_eq!(Names::consumer("mail.eu").unwrap(), "mail=2Eeu");
    }

    #[test]
    fn dead_letters_have_topics_of_their_own() {
        let dead = dead_topic("orders", false);
        assert_eq!(dead, "orders.dead");
        assert_eq!(dead_topic("orders", true), "orders.invalid");
        assert!(is_dead_topic(&dead) && !is_dead_topic("orders"));
    }
}
