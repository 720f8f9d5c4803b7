//! Names of topics on the broker. Topics keep their slashes, so that other clients can use them unchanged; every
//! other character with a meaning in MQTT is percent-encoded.

use punctual::model::{NAME_LEN_MAX, Topic};
use punctual::{Error, Result};

/// Suffix of a dead-letter topic.
const DEAD: &str = ".dead";
/// Suffix of the topic of unreadable messages.
const INVALID: &str = ".invalid";

/// Names of one topic and one group.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    /// Topic of messages for this group only.
    pub(crate) group_topic: String,
    /// Shared subscription filters of the group's members.
    pub(crate) filters: [String; 2],
    /// Filter of the status topics of the group's members.
    pub(crate) members: String,
    pub(crate) dead: String,
    pub(crate) invalid: String,
    member_head: String,
    member_tail: String,
}

impl Names {
    pub(crate) fn of(prefix: &str, topic: &Topic, group: &str) -> Self {
        let (shared, own) = (topic_name(prefix, topic), group_topic(prefix, topic, group));
        let share = format!("$share/{}", level(group));
        let member_head = format!("{prefix}/member/{}/", level(group));
        let member_tail = format!("/{}", path(topic.as_str()));
        Self {
            filters: [format!("{share}/{shared}"), format!("{share}/{own}")],
            members: format!("{member_head}+{member_tail}"),
            dead: format!("{shared}{DEAD}"),
            invalid: format!("{shared}{INVALID}"),
            group_topic: own,
            member_head,
            member_tail,
        }
    }

    /// Returns the status topic of a member.
    pub(crate) fn member_topic(&self, id: &str) -> String {
        format!("{}{id}{}", self.member_head, self.member_tail)
    }

    /// Returns the member of a status topic.
    pub(crate) fn member_of<'a>(&self, name: &'a str) -> Option<&'a str> {
        name.strip_prefix(&*self.member_head)?.strip_suffix(&*self.member_tail)
    }
}

/// Returns the name of a topic on the broker.
pub(crate) fn topic_name(prefix: &str, topic: &Topic) -> String {
    format!("{prefix}/topic/{}", path(topic.as_str()))
}

/// Returns the topic of messages for one group only.
pub(crate) fn group_topic(prefix: &str, topic: &Topic, group: &str) -> String {
    format!("{prefix}/group/{}/{}", level(group), path(topic.as_str()))
}

/// Returns the topic that a client uses to send messages to itself.
pub(crate) fn inbox(prefix: &str, id: &str) -> String {
    format!("{prefix}/inbox/{id}")
}

/// Returns the filter of the status topics of all members of all groups.
pub(crate) fn all_members(prefix: &str) -> String {
    format!("{prefix}/member/#")
}

/// Returns the topic contained in the name of a status topic.
pub(crate) fn topic_of(prefix: &str, name: &str) -> Option<Topic> {
    let rest = name.strip_prefix(prefix)?.strip_prefix("/member/")?;
    let (_, rest) = rest.split_once('/')?;
    let (_, written) = rest.split_once('/')?;
    let topic = Topic::stored(decode(written)?).ok()?;
    // A name written by another program may decode to a topic by accident.
    (path(topic.as_str()) == written).then_some(topic)
}

/// Refuses an invalid group name.
pub(crate) fn check_group(group: &str) -> Result<()> {
    let fits = !group.is_empty() && group.chars().count() <= NAME_LEN_MAX;
    if !fits || group.chars().any(char::is_control) {
        return Err(Error::invalid(format!(
            "the group {group:?} is invalid; use 1 to {NAME_LEN_MAX} printable characters"
        )));
    }
    Ok(())
}

/// Refuses an invalid prefix.
pub(crate) fn check_prefix(prefix: &str) -> Result<()> {
    let fits = !prefix.is_empty() && prefix.chars().count() <= NAME_LEN_MAX;
    let is_forbidden = |letter: char| letter.is_control() || "+#%".contains(letter);
    if !fits || prefix.starts_with('$') || prefix.chars().any(is_forbidden) {
        return Err(Error::invalid(format!(
            "the prefix {prefix:?} is invalid; use 1 to {NAME_LEN_MAX} printable characters without +, \
             # and %, not beginning with $"
        )));
    }
    Ok(())
}

/// Encodes a name as one topic level.
fn level(text: &str) -> String {
    encode(text, "%+#/")
}

/// Encodes a name as one or more topic levels.
fn path(text: &str) -> String {
    encode(text, "%+#")
}

fn encode(text: &str, reserved: &str) -> String {
    let mut coded = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            letter if reserved.contains(letter) => {
                coded.push_str(match letter {
                    '%' => "%25",
                    '+' => "%2B",
                    '#' => "%23",
                    _ => "%2F",
                });
            }
            letter => coded.push(letter),
        }
    }
    coded
}

fn decode(coded: &str) -> Option<String> {
    let mut parts = coded.split('%');
    let mut text = parts.next()?.to_owned();
    for part in parts {
        let (code, rest) = part.split_at_checked(2)?;
        text.push(match code {
            "25" => '%',
            "2B" => '+',
            "23" => '#',
            "2F" => '/',
            _ => return None,
        });
        text.push_str(rest);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_with_a_meaning_in_mqtt_are_encoded() {
        let topic = Topic::new("site/+/100% #1").unwrap();
        let names = Names::of("shop", &topic, "a/b+c");
        assert_eq!(names.dead, "shop/topic/site/%2B/100%25 %231.dead");
        assert_eq!(names.group_topic, "shop/group/a%2Fb%2Bc/site/%2B/100%25 %231");
        assert_eq!(names.filters[0], "$share/a%2Fb%2Bc/shop/topic/site/%2B/100%25 %231");
        let member = names.member_topic("m1");
        assert_eq!(names.member_of(&member), Some("m1"));
        assert_eq!(topic_of("shop", &member), Some(topic));
        assert_eq!(topic_of("shop", "shop/member/a/b/%99"), None);
        assert_eq!(topic_of("other", &member), None);
    }

    #[test]
    fn ambiguous_names_are_refused() {
        for prefix in ["", "$SYS", "a+", "a#", "100%", "a\nb"] {
            let error = check_prefix(prefix).unwrap_err().to_string();
            assert!(error.contains(&format!("{prefix:?}")), "{error}");
        }
        check_prefix("shop/eu").unwrap();
        assert!(check_group("").is_err() && check_group("a\0").is_err());
        check_group("a/b").unwrap();
    }
}
