//! Names on the broker. A topic is `<prefix><topic>`. A group is `<prefix><topic>.<group>`, one per topic, so that a
//! rebalance of one topic does not affect the others. Dead letters are in the topics `<group's name>.dead` and
//! `<group's name>.invalid`.

use punctual::model::Topic;
use punctual::{Error, Result};

/// Longest topic name that Kafka accepts.
const NAME_MAX: usize = 249;
const DEAD: &str = ".dead";
const INVALID: &str = ".invalid";

/// Names of one subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupNames {
    pub(crate) topic: String,
    /// Kafka's `group.id`.
    pub(crate) group: String,
    pub(crate) dead: String,
    pub(crate) invalid: String,
}

/// Returns the name of a topic on the broker.
pub(crate) fn topic_name(prefix: &str, topic: &Topic) -> Result<String> {
    checked("topic", topic.as_str(), format!("{prefix}{topic}"))
}

/// Returns the names of a group of a topic.
pub(crate) fn group_names(prefix: &str, topic: &Topic, group: &str) -> Result<GroupNames> {
    if group.is_empty() {
        return Err(Error::invalid("the group has no name; name it, such as \"billing\""));
    }
    let name = format!("{prefix}{topic}.{group}");
    Ok(GroupNames {
        topic: topic_name(prefix, topic)?,
        // The longest of the four names: if it is valid, the others are.
        invalid: checked("group", group, format!("{name}{INVALID}"))?,
        dead: format!("{name}{DEAD}"),
        group: name,
    })
}

/// Returns the topic of a name on the broker; none for dead letters and for foreign topics.
pub(crate) fn topic_of(prefix: &str, name: &str) -> Option<Topic> {
    let topic = name.strip_prefix(prefix)?;
    if name.starts_with("__") || topic.ends_with(DEAD) || topic.ends_with(INVALID) {
        return None;
    }
    Topic::stored(topic).ok()
}

/// Refuses a prefix that contains forbidden characters.
pub(crate) fn check_prefix(prefix: &str) -> Result<()> {
    checked("prefix", prefix, prefix.to_owned()).map(|_| ())
}

fn checked(what: &str, given: &str, name: String) -> Result<String> {
    if let Some(wrong) = name.chars().find(|letter| !is_allowed(*letter)) {
        return Err(Error::invalid(format!(
            "the {what} {given:?} contains {wrong:?}, which Kafka does not allow; use letters a to z, \
             digits, '.', '_' and '-'"
        )));
    }
    if name.len() > NAME_MAX || name == "." || name == ".." {
        return Err(Error::invalid(format!(
            "the {what} {given:?} becomes {name:?} on the broker, which Kafka does not allow; shorten it, \
             so that the whole name has at most {NAME_MAX} characters"
        )));
    }
    Ok(name)
}

fn is_allowed(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(name: &str) -> Topic {
        Topic::new(name).unwrap()
    }

    #[test]
    fn every_name_begins_with_the_prefix_and_contains_topic_and_group() {
        let names = group_names("shop-", &topic("mail.sent"), "office").unwrap();
        assert_eq!(names.topic, "shop-mail.sent");
        assert_eq!(names.group, "shop-mail.sent.office");
        assert_eq!(names.dead, "shop-mail.sent.office.dead");
        assert_eq!(names.invalid, "shop-mail.sent.office.invalid");
    }

    #[test]
    fn names_that_kafka_refuses_are_refused_with_the_wrong_character() {
        for (name, group, expected) in [
            ("mail/sent", "office", "'/'"),
            ("zażółć", "office", "'ż'"),
            ("mail", "two\nlines", "'\\n'"),
            ("mail", "", "no name"),
        ] {
            let error = group_names("", &topic(name), group).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let long = "x".repeat(150);
        assert!(group_names("", &topic(&long), &long).is_err());
        assert!(topic_name("", &topic("..")).is_err());
        assert!(check_prefix("a b").is_err() && check_prefix("").is_ok());
    }

    #[test]
    fn only_topics_of_this_prefix_are_listed_and_no_dead_letters() {
        assert_eq!(topic_of("shop-", "shop-mail"), Some(topic("mail")));
        for name in ["mail", "shop-", "shop-mail.office.dead", "shop-mail.office.invalid"] {
            assert_eq!(topic_of("shop-", name), None, "{name}");
        }
        assert_eq!(topic_of("", "__consumer_offsets"), None);
    }
}
