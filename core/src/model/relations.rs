//! What ties a message to others: limits it shares, a batch it belongs to or waits for, what follows
//! it, and how long it is the only one of its kind. Most messages have none of it.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    BatchId, Body, Ending, ExecutionId, HandlerOptions, Headers, Key, MessageId, Priority, Queue,
    SYSTEM_TOPICS, Topic,
};
use crate::error::{Error, Result};

/// How many steps a chain may have, one behind the other.
pub const CHAIN_DEPTH_MAX: usize = 5;
/// How many messages may follow from one, all branches together.
pub const CHAIN_MESSAGES_MAX: usize = 100;

/// What ties a message to others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Relations {
    /// The limit it shares with others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// How long its deduplication key keeps others out.
    #[serde(skip_serializing_if = "Unique::is_default")]
    pub unique: Unique,
    /// The batch it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<BatchId>,
    /// The batch whose end it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<BatchId>,
    /// What follows it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub then: Vec<Link>,
    /// What it follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
}

impl Relations {
    /// Refuses what cannot work.
    pub fn check(&self) -> Result<()> {
        if let Some(limit) = &self.limit {
            limit.check()?;
        }
        if matches!(self.unique, Unique::For(period) if period.is_zero()) {
            return Err(Error::invalid(
                "a message cannot be unique for no time at all; give a length such as 1h",
            ));
        }
        let (depth, length) = extent(&self.then);
        if depth > CHAIN_DEPTH_MAX {
            return Err(Error::invalid(format!(
                "the chain is {depth} steps deep; {CHAIN_DEPTH_MAX} are allowed, let a later step publish the rest"
            )));
        }
        if length > CHAIN_MESSAGES_MAX {
            return Err(Error::invalid(format!(
                "{length} messages would follow; {CHAIN_MESSAGES_MAX} are allowed, use a batch for many"
            )));
        }
        Ok(())
    }
}

impl Relations {
    /// Returns everything that follows, whatever the depth.
    pub(crate) fn links(&self) -> Vec<&Link> {
        let mut unvisited: Vec<&Link> = self.then.iter().collect();
        let mut links = Vec::new();
        while let Some(link) = unvisited.pop() {
            links.push(link);
            unvisited.extend(&link.then);
        }
        links
    }

    /// Refuses what a sender on a broker must not ask for: besides what cannot work, follow-up messages to
    /// topics of the server, which run programs and use secrets, or in queues that the engine keeps for itself.
    pub(crate) fn check_received(&self) -> Result<()> {
        self.check()?;
        for link in self.links() {
            if link.topic.is_system() {
                return Err(Error::invalid(format!(
                    "a message of the topic {:?} would follow; topics that begin with {SYSTEM_TOPICS:?} belong to Punctual and cannot be sent to",
                    link.topic
                )));
            }
            if link.queue.is_reserved() {
                return Err(Error::invalid(format!(
                    "a message in the queue {:?} would follow, which Punctual keeps for itself",
                    link.queue
                )));
            }
        }
        Ok(())
    }
}

/// How deep links go, and how many there are.
fn extent(links: &[Link]) -> (usize, usize) {
    links.iter().fold((0, 0), |(depth, length), link| {
        let (below, more) = extent(&link.then);
        (depth.max(below + 1), length + more + 1)
    })
}

/// A limit that all messages with the same name share, on all processes together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// The name.
    pub name: Key,
    /// How many may run at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_max: Option<u32>,
    /// How many may start in a span of time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
}

impl Limit {
    pub(crate) fn check(&self) -> Result<()> {
        let name = &self.name;
        if self.running_max == Some(0) {
            return Err(Error::invalid(format!(
                "the limit {name:?} lets none run at all; allow at least 1"
            )));
        }
        match self.rate {
            Some(rate) if rate.count == 0 || rate.per.is_zero() => Err(Error::invalid(format!(
                "the limit {name:?} allows {} starts in {:?}; give at least 1 in a length such as 1s",
                rate.count, rate.per
            ))),
            _ => Ok(()),
        }
    }
}

/// So many starts in a span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// How many.
    pub count: u32,
    /// In how long.
    #[serde(with = "super::duration_text")]
    pub per: Duration,
}

/// How long a deduplication key keeps others out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unique {
    /// While the message is pending or running.
    #[default]
    WhileAlive,
    /// Until it is first handed to a handler.
    WhilePending,
    /// For a length of time after it was accepted, and while it is alive.
    For(#[serde(with = "super::duration_text")] Duration),
}

impl Unique {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A message that follows another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// After which end of the one before.
    pub on: LinkOn,
    /// The name that finds its handler.
    pub topic: Topic,
    /// The line it waits in.
    pub queue: Queue,
    /// How urgent it is.
    pub priority: Priority,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Key>,
    /// The content.
    pub body: Body,
    /// Small facts that travel along.
    #[serde(default)]
    pub headers: Headers,
    /// How long after the one before it is due.
    #[serde(default, with = "super::duration_text")]
    pub delay: Duration,
    /// What it says itself about its attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "terms")]
    pub handler_options: Option<Arc<HandlerOptions>>,
    /// What follows this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub then: Vec<Link>,
}

/// After which end a link follows. A message that is cancelled ends its chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkOn {
    /// When it is done.
    Success,
    /// When it is given up.
    Failure,
    /// When it is done or given up.
    Always,
}

/// What a message follows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parent {
    /// The message before.
    pub message: MessageId,
    /// The attempt that ended it.
    pub execution: ExecutionId,
    /// How that ended.
    pub ending: Ending,
    /// The error or note, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Arc<str>>,
    /// What its handler returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Body>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(then: Vec<Link>) -> Link {
        Link {
            on: LinkOn::Success,
            topic: Topic::new("next").unwrap(),
            queue: Queue::default(),
            priority: Priority::NORMAL,
            key: None,
            body: Body::empty(),
            headers: Headers::new(),
            delay: Duration::ZERO,
            handler_options: None,
            then,
        }
    }

    // spec: C-10
    #[test]
    fn a_chain_has_a_depth_and_a_length_that_are_said_loudly() {
        let deep = |steps: usize| (0..steps).fold(Vec::new(), |then, _| vec![link(then)]);
        let fits = Relations { then: deep(CHAIN_DEPTH_MAX), ..Relations::default() };
        fits.check().unwrap();
        let error = Relations { then: deep(CHAIN_DEPTH_MAX + 1), ..Relations::default() }.check();
        assert!(error.unwrap_err().to_string().contains("6 steps deep; 5 are allowed"));
        let wide = vec![link(Vec::new()); CHAIN_MESSAGES_MAX + 1];
        let error = Relations { then: wide, ..Relations::default() }.check().unwrap_err();
        assert!(error.to_string().contains("101 messages would follow"));
    }

    #[test]
    fn limits_and_periods_that_let_nothing_through_are_refused_by_name() {
        let limited = |running_max, rate| Relations {
            limit: Some(Limit { name: Key::new("mail").unwrap(), running_max, rate }),
            ..Relations::default()
        };
        limited(Some(1), Some(Rate { count: 1, per: Duration::from_secs(1) })).check().unwrap();
        for wrong in [
            limited(Some(0), None),
            limited(None, Some(Rate { count: 0, per: Duration::from_secs(1) })),
            limited(None, Some(Rate { count: 1, per: Duration::ZERO })),
        ] {
            assert!(wrong.check().unwrap_err().to_string().contains("mail"));
        }
        let never = Relations { unique: Unique::For(Duration::ZERO), ..Relations::default() };
        assert!(never.check().is_err());
    }

    #[test]
    fn ties_read_back_as_they_were_written() {
        let relations = Relations {
            limit: Some(Limit {
                name: Key::new("mail").unwrap(),
                running_max: Some(2),
                rate: Some(Rate { count: 5, per: Duration::from_millis(1_500) }),
            }),
            unique: Unique::For(Duration::from_secs(3_600)),
            then: vec![link(vec![link(Vec::new())])],
            ..Relations::default()
        };
        let text = serde_json::to_string(&relations).unwrap();
        assert_eq!(serde_json::from_str::<Relations>(&text).unwrap(), relations);
        assert_eq!(serde_json::to_string(&Relations::default()).unwrap(), "{}");
    }
}
