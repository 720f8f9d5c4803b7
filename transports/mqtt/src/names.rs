//! The names of everything on the broker. Topics keep their slashes, so that strangers can use them as they
//! are; everything else that has a meaning to MQTT is written as a code.

use punctual::model::{NAME_LENGTH_MAX, Topic};
use punctual::{Error, Result};

/// What a topic of dead letters ends with.
const DEAD: &str = ".dead";
/// What a topic of messages that cannot be read ends with.
const INVALID: &str = ".invalid";

/// The names of one topic and one group.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    /// Published to for this group alone.
    pub(crate) own: String,
    /// What members of the group subscribe to, sharing.
    pub(crate) filters: [String; 2],
    /// Where members of the group say how they are.
    pub(crate) members: String,
    pub(crate) dead: String,
    pub(crate) invalid: String,
    member_head: String,
    member_tail: String,
}

impl Names {
    pub(crate) fn of(prefix: &str, topic: &Topic, group: &str) -> Self {
        let (shared, own) = (shared(prefix, topic), own(prefix, topic, group));
        let share = format!("$share/{}", level(group));
        let member_head = format!("{prefix}/member/{}/", level(group));
        let member_tail = format!("/{}", path(topic.as_str()));
        Self {
            filters: [format!("{share}/{shared}"), format!("{share}/{own}")],
            members: format!("{member_head}+{member_tail}"),
            dead: format!("{shared}{DEAD}"),
            invalid: format!("{shared}{INVALID}"),
            own,
            member_head,
            member_tail,
        }
    }

    /// Where one member says how it is.
    pub(crate) fn member(&self, id: &str) -> String {
        format!("{}{id}{}", self.member_head, self.member_tail)
    }

    /// Which member says it there.
    pub(crate) fn member_of<'a>(&self, name: &'a str) -> Option<&'a str> {
        name.strip_prefix(&*self.member_head)?.strip_suffix(&*self.member_tail)
    }
}

/// Where a topic is published to.
pub(crate) fn shared(prefix: &str, topic: &Topic) -> String {
    format!("{prefix}/topic/{}", path(topic.as_str()))
}

/// Where a topic is published to for one group alone.
pub(crate) fn own(prefix: &str, topic: &Topic, group: &str) -> String {
    format!("{prefix}/group/{}/{}", level(group), path(topic.as_str()))
}

/// Where a client hears itself.
pub(crate) fn inbox(prefix: &str, id: &str) -> String {
    format!("{prefix}/inbox/{id}")
}

/// The names that all members of all groups have in common.
pub(crate) fn everybody(prefix: &str) -> String {
    format!("{prefix}/member/#")
}

/// The topic of a member's name.
pub(crate) fn topic_of(prefix: &str, name: &str) -> Option<Topic> {
    let rest = name.strip_prefix(prefix)?.strip_prefix("/member/")?;
    let (_, rest) = rest.split_once('/')?;
    let (_, written) = rest.split_once('/')?;
    let topic = Topic::stored(read(written)?).ok()?;
    // What was not written here may read as a topic by accident.
    (path(topic.as_str()) == written).then_some(topic)
}

/// Refuses a group that nobody could have.
pub(crate) fn check_group(group: &str) -> Result<()> {
    let fits = !group.is_empty() && group.chars().count() <= NAME_LENGTH_MAX;
    if !fits || group.chars().any(char::is_control) {
        return Err(Error::invalid(format!(
            "the group {group:?} must have 1 to {NAME_LENGTH_MAX} printable characters"
        )));
    }
    Ok(())
}

/// Refuses a prefix that could not begin a name.
pub(crate) fn check_prefix(prefix: &str) -> Result<()> {
    let fits = !prefix.is_empty() && prefix.chars().count() <= NAME_LENGTH_MAX;
    let is_strange = |letter: char| letter.is_control() || "+#%".contains(letter);
    if !fits || prefix.starts_with('$') || prefix.chars().any(is_strange) {
        return Err(Error::invalid(format!(
            "the prefix {prefix:?} must have 1 to {NAME_LENGTH_MAX} printable characters, none of them + # or %, and not begin with $"
        )));
    }
    Ok(())
}

/// A name as one level.
fn level(text: &str) -> String {
    coded(text, "%+#/")
}

/// A name as one or more levels.
fn path(text: &str) -> String {
    coded(text, "%+#")
}

fn coded(text: &str, strange: &str) -> String {
    let mut coded = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            letter if strange.contains(letter) => {
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

fn read(coded: &str) -> Option<String> {
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
    fn whatever_has_a_meaning_to_mqtt_is_a_code() {
        let topic = Topic::new("site/+/100% #1").unwrap();
        let names = Names::of("shop", &topic, "a/b+c");
        assert_eq!(names.dead, "shop/topic/site/%2B/100%25 %231.dead");
        assert_eq!(names.own, "shop/group/a%2Fb%2Bc/site/%2B/100%25 %231");
        assert_eq!(names.filters[0], "$share/a%2Fb%2Bc/shop/topic/site/%2B/100%25 %231");
        let member = names.member("m1");
        assert_eq!(names.member_of(&member), Some("m1"));
        assert_eq!(topic_of("shop", &member), Some(topic));
        assert_eq!(topic_of("shop", "shop/member/a/b/%99"), None);
        assert_eq!(topic_of("other", &member), None);
    }

    #[test]
    fn names_that_could_not_be_told_apart_are_refused() {
        for prefix in ["", "$SYS", "a+", "a#", "100%", "a\nb"] {
            let error = check_prefix(prefix).unwrap_err().to_string();
            assert!(error.contains(&format!("{prefix:?}")), "{error}");
        }
        check_prefix("shop/eu").unwrap();
        assert!(check_group("").is_err() && check_group("a\0").is_err());
        check_group("a/b").unwrap();
    }
}
