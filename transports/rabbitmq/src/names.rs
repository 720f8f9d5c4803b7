//! Names of exchanges and queues on the broker.

use lapin::types::ShortString;
use punctual::model::Topic;
use punctual::{Error, Result};

use crate::wire::short_string;

/// Names of a group's exchange and queues on the broker.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    /// Exchange of the topic.
    pub(crate) exchange: ShortString,
    /// Queue of the group.
    pub(crate) queue: ShortString,
    /// Queue of the group's dead letters.
    pub(crate) dead: ShortString,
    /// Queue of the group's unreadable messages.
    pub(crate) invalid: ShortString,
}

impl Names {
    pub(crate) fn new(prefix: &str, topic: &Topic, group: &str) -> Result<Self> {
        if group.is_empty() || group.chars().any(char::is_control) {
            return Err(Error::invalid(format!(
                "the group {group:?} must have at least one character, and printable ones only"
            )));
        }
        let queue = format!("{prefix}{topic}.{}", segment(group));
        Ok(Self {
            exchange: exchange(prefix, topic)?,
            dead: short_string(&format!("{queue}.dead"), "queue")?,
            invalid: short_string(&format!("{queue}.invalid"), "queue")?,
            queue: short_string(&queue, "queue")?,
        })
    }
}

/// Returns the name of a topic's exchange.
pub(crate) fn exchange(prefix: &str, topic: &Topic) -> Result<ShortString> {
    short_string(&format!("{prefix}{topic}"), "exchange")
}

/// Returns a group as the last part of a name: without dots, so that `a.b` of `c` is not `a` of `b.c`, and never
/// `dead` or `invalid`, which name other queues.
fn segment(group: &str) -> String {
    match group {
        "dead" => "%64ead".to_owned(),
        "invalid" => "%69nvalid".to_owned(),
        _ => group.replace('%', "%25").replace('.', "%2E"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(topic: &str, group: &str) -> Names {
        Names::new("p.", &Topic::new(topic).unwrap(), group).unwrap()
    }

    #[test]
    fn names_are_unique() {
        assert_eq!(queue("orders", "billing").queue.as_str(), "p.orders.billing");
        assert_ne!(queue("a.b", "c").queue, queue("a", "b.c").queue);
        assert_ne!(queue("a.b", "dead").queue, queue("a", "b").dead);
        assert_ne!(queue("a.b", "invalid").queue, queue("a", "b").invalid);
        assert_ne!(queue("a", "b.c").queue, queue("a", "b%2Ec").queue);
        assert_ne!(queue("a", "dead").queue, queue("a", "%64ead").queue);
    }

    #[test]
    fn a_name_that_is_too_long_is_refused_with_its_size() {
        let topic = Topic::new("t".repeat(190)).unwrap();
        let error = Names::new("p.", &topic, &"g".repeat(60)).unwrap_err().to_string();
        assert!(error.contains("258 bytes") && error.contains("255"), "{error}");
        assert!(Names::new("p.", &topic, "").is_err());
        assert!(Names::new("p.", &topic, "a\nb").is_err());
    }
}
