//! Relations of a message to others: the limit it shares, the batch it belongs to or waits for, the links that
//! follow it, and the reservation of its deduplication key. Most messages have none.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    BatchId, Body, Ending, ExecutionId, HandlerOptions, Headers, Key, MessageId, Priority, Queue,
    SYSTEM_TOPICS, Topic,
};
use crate::error::{Error, Result};

/// Largest depth of a chain.
const CHAIN_DEPTH_MAX: usize = 5;
/// Largest number of messages that may follow from one, all branches together.
const CHAIN_MESSAGES_MAX: usize = 100;

/// Relations of a message to others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Relations {
    /// Limit that it shares with others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// For how long its deduplication key is reserved.
    #[serde(skip_serializing_if = "Unique::is_default")]
    pub unique: Unique,
    /// Batch it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<BatchId>,
    /// Batch whose end it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<BatchId>,
    /// Links that follow it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub then: Vec<Link>,
    /// Message that it follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
}

impl Relations {
    /// Fails when the relations cannot work.
    pub fn check(&self) -> Result<()> {
        if let Some(limit) = &self.limit {
            limit.check()?;
        }
        if matches!(self.unique, Unique::For(period) if period.is_zero()) {
            return Err(Error::invalid(
                "a message cannot be unique for zero time; use a duration such as 1h",
            ));
        }
        let (depth, count) = chain_size(&self.then);
        if depth > CHAIN_DEPTH_MAX {
            return Err(Error::invalid(format!(
                "the chain is {depth} steps deep; {CHAIN_DEPTH_MAX} are allowed, let a later step publish the rest"
            )));
        }
        if count > CHAIN_MESSAGES_MAX {
            return Err(Error::invalid(format!(
                "{count} messages would follow; {CHAIN_MESSAGES_MAX} are allowed, use a batch for many"
            )));
        }
        Ok(())
    }
}

impl Relations {
    /// Returns all links that follow, at every depth.
    pub(crate) fn links(&self) -> Vec<&Link> {
        let mut unvisited: Vec<&Link> = self.then.iter().collect();
        let mut links = Vec::new();
        while let Some(link) = unvisited.pop() {
            links.push(link);
            unvisited.extend(&link.then);
        }
        links
    }

    /// Fails when a sender on a broker uses forbidden relations: besides relations that cannot work, links to
    /// topics of the server, which run programs and use secrets, or in reserved queues.
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
                    "a message in the queue {:?} would follow, which is reserved",
                    link.queue
                )));
            }
        }
        Ok(())
    }
}

/// Returns the depth and the number of links.
fn chain_size(links: &[Link]) -> (usize, usize) {
    links.iter().fold((0, 0), |(depth, count), link| {
        let (below, more) = chain_size(&link.then);
        (depth.max(below + 1), count + more + 1)
    })
}

/// Limit that all messages with the same name share, in all processes together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Name of the limit.
    pub name: Key,
    /// Largest number of messages that run in parallel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_max: Option<u32>,
    /// Largest number of messages that start in a period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
}

impl Limit {
    pub(crate) fn check(&self) -> Result<()> {
        let name = &self.name;
        if self.running_max == Some(0) {
            return Err(Error::invalid(format!(
                "the limit {name:?} allows no message to run; allow at least 1"
            )));
        }
        match self.rate {
            Some(rate) if rate.count == 0 || rate.per.is_zero() => Err(Error::invalid(format!(
                "the limit {name:?} allows {} starts in {:?}; allow at least 1 in a duration such as 1s",
                rate.count, rate.per
            ))),
            _ => Ok(()),
        }
    }
}

/// Number of starts in a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Number of starts.
    pub count: u32,
    /// Duration of the period.
    #[serde(with = "super::duration_text")]
    pub per: Duration,
}

/// For how long a deduplication key is reserved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unique {
    /// While the message is pending or running.
    #[default]
    WhileAlive,
    /// Until it is first claimed.
    WhilePending,
    /// For a duration after it was accepted, and while it is alive.
    For(#[serde(with = "super::duration_text")] Duration),
}

impl Unique {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Message that follows another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// End of the previous message after which it follows.
    pub on: LinkOn,
    /// Topic, which selects its handler.
    pub topic: Topic,
    /// Queue from which it is claimed.
    pub queue: Queue,
    /// Priority.
    pub priority: Priority,
    /// Key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Key>,
    /// Content.
    pub body: Body,
    /// Headers.
    #[serde(default)]
    pub headers: Headers,
    /// Delay after the end of the previous message.
    #[serde(default, with = "super::duration_text")]
    pub delay: Duration,
    /// Options for its attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "terms")]
    pub handler_options: Option<Arc<HandlerOptions>>,
    /// Links that follow this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub then: Vec<Link>,
}

/// End of a message after which a link follows. Cancelling a message ends its chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkOn {
    /// It is done.
    Success,
    /// It is dead.
    Failure,
    /// It is done or dead.
    Always,
}

/// Message that another one follows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parent {
    /// Previous message.
    pub message: MessageId,
    /// Attempt that ended it.
    pub execution: ExecutionId,
    /// Ending of that attempt.
    pub ending: Ending,
    /// Error or note, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Arc<str>>,
    /// Result that its handler returned.
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
    fn a_chain_is_limited_in_depth_and_in_number() {
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
    fn limits_that_allow_nothing_are_refused_by_name() {
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
    fn relations_read_back_as_they_were_written() {
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
