//! Names on the broker: a topic of Punctual is a topic there and a group is a subscription of it; or a topic is
//! a queue, which has one group.

use punctual::model::Topic;
use punctual::{Error, Result};

const ENTITY_LEN_MAX: usize = 260;
const SUBSCRIPTION_LEN_MAX: usize = 50;

/// Type of entity that a topic of Punctual is on the broker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Entities {
    /// A topic, with a subscription for each group.
    #[default]
    Topics,
    /// A queue, which all consumers share whatever their group is.
    Queues,
}

/// Returns the name of the topic or queue: prefix, full stop, topic.
pub(crate) fn entity(prefix: &str, topic: &Topic) -> Result<String> {
    let name = match prefix {
        "" => topic.as_str().to_owned(),
        prefix => format!("{prefix}.{topic}"),
    };
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '/');
    let ends_well = name.chars().next().is_some_and(|c| c.is_ascii_alphanumeric())
        && name.chars().last().is_some_and(|c| c.is_ascii_alphanumeric());
    if name.len() > ENTITY_LEN_MAX || !name.chars().all(is_allowed) || !ends_well {
        return Err(Error::invalid(format!(
            "the name {name:?} is not allowed by Service Bus; use at most {ENTITY_LEN_MAX} letters, digits, '.', '-', '_' and '/', with a letter or digit at both ends"
        )));
    }
    Ok(name)
}

/// Refuses a group that cannot be a subscription.
pub(crate) fn check_group(group: &str) -> Result<()> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if group.is_empty() || group.len() > SUBSCRIPTION_LEN_MAX || !group.chars().all(is_allowed) {
        return Err(Error::invalid(format!(
            "the group {group:?} is not allowed as a subscription of Service Bus; use 1 to {SUBSCRIPTION_LEN_MAX} letters, digits, '.', '-' and '_'"
        )));
    }
    Ok(())
}

/// Returns the address from which the messages of a group are received.
pub(crate) fn source(entity: &str, group: &str, entities: Entities) -> String {
    match entities {
        Entities::Topics => format!("{entity}/Subscriptions/{group}"),
        Entities::Queues => entity.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_built_and_invalid_ones_refused() {
        let topic = Topic::new("mail.sent").unwrap();
        assert_eq!(entity("", &topic).unwrap(), "mail.sent");
        assert_eq!(entity("shop", &topic).unwrap(), "shop.mail.sent");
        assert_eq!(source("mail", "office", Entities::Topics), "mail/Subscriptions/office");
        assert_eq!(source("mail", "office", Entities::Queues), "mail");
        for name in ["zażółć", "two words", "mail.", "-mail"] {
            let error = entity("", &Topic::new(name).unwrap()).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
        let long = "x".repeat(51);
        for group in ["", "two\nlines", "a/b", &long] {
            assert!(check_group(group).is_err(), "{group}");
        }
        check_group("office-1_a.b").unwrap();
    }
}
