//! Relations of a message to others: limits, uniqueness, and messages that follow it.

use std::time::Duration;

use super::Publish;
use super::publish::{Draft, Due};
use super::routing::Via;
use crate::error::{Error, Result};
use crate::model::{Key, Limit, Link, LinkOn, Rate, Topic, Unique};

impl Publish {
    /// Limits how many messages with the same limit name run in parallel, on all processes together.
    pub fn limit(self, name: impl AsRef<str>, running_max: u32) -> Self {
        self.limited(name, |limit| limit.running_max = Some(running_max))
    }

    /// Limits how many messages with the same limit name start in any time window `per`, on all
    /// processes together. Messages over the limit wait without spending an attempt.
    pub fn rate(self, name: impl AsRef<str>, count: u32, per: Duration) -> Self {
        self.limited(name, |limit| limit.rate = Some(Rate { count, per }))
    }

    fn limited(self, name: impl AsRef<str>, change: impl FnOnce(&mut Limit)) -> Self {
        self.set(|draft| {
            let name = Key::new(name)?;
            let limit = draft.relations.limit.get_or_insert_with(|| Limit {
                name: name.clone(),
                running_max: None,
                rate: None,
            });
            if limit.name != name {
                return Err(two_limits(&limit.name, &format!("{name:?}")));
            }
            change(limit);
            Ok(())
        })
    }

    /// Handles messages of this topic with the same key one at a time, on all processes together. Set the key
    /// before.
    pub fn one_at_a_time(self) -> Self {
        self.set(|draft| {
            let Some(key) = &draft.key else {
                return Err(Error::invalid("one_at_a_time() needs a key; call key() before it"));
            };
            let name = topic_key(&draft.topic, key);
            if let Some(limit) = draft.relations.limit.as_ref().filter(|limit| limit.name != name) {
                return Err(two_limits(&limit.name, "one_at_a_time()"));
            }
            draft.relations.limit = Some(Limit { name, running_max: Some(1), rate: None });
            Ok(())
        })
    }

    /// [`Publish::unique`] ends when the message is first claimed.
    pub fn while_pending(self) -> Self {
        self.edit(|draft| draft.relations.unique = Unique::WhilePending)
    }

    /// [`Publish::unique`] lasts this long after the message was accepted, also when it is done by then.
    pub fn for_period(self, period: Duration) -> Self {
        self.edit(|draft| draft.relations.unique = Unique::For(period))
    }

    /// Skips the message when it would begin later than this after its due time.
    pub fn expires_after(self, late: Duration) -> Self {
        self.edit(|draft| draft.handler_options.expires_after = Some(late))
    }

    /// Adds a message that follows when this message is done.
    ///
    /// It is stored in the step that ends this message. Its handler reads the result of this message with
    /// [`Context::parent_result`](crate::Context::parent_result). A cancelled message ends its chain.
    pub fn then(self, next: Publish) -> Self {
        self.follow(LinkOn::Success, next)
    }

    /// Adds a message that follows when this message becomes a dead letter.
    pub fn on_failure(self, next: Publish) -> Self {
        self.follow(LinkOn::Failure, next)
    }

    /// Adds a message that follows when this message is done or becomes a dead letter.
    pub fn always(self, next: Publish) -> Self {
        self.follow(LinkOn::Always, next)
    }

    fn follow(self, on: LinkOn, next: Publish) -> Self {
        self.set(|draft| {
            draft.relations.then.push(link(on, next.draft?)?);
            Ok(())
        })
    }
}

fn two_limits(first: &Key, second: &str) -> Error {
    Error::invalid(format!(
        "a message has one limit, and this one already has {first:?}, so {second} cannot be added; give \
         limit() and rate() the same name, and use limit(name, 1) in place of one_at_a_time()"
    ))
}

/// Returns the name that messages of a topic and a key share. It contains the length of the topic, because a
/// topic may contain the separator.
pub(crate) fn topic_key(topic: &Topic, key: &Key) -> Key {
    Key::composed(format!("{}:{topic}/{key}", topic.as_str().len()))
}

/// Converts a draft into a step of a chain.
fn link(on: LinkOn, draft: Draft) -> Result<Link> {
    let refused = |what: &str| {
        Err(Error::invalid(format!(
            "the step {:?} of a chain cannot have {what}; its handler can publish such a message itself",
            draft.topic
        )))
    };
    let delay = match draft.due {
        Due::Now => Duration::ZERO,
        Due::After(delay) => delay,
        Due::At(_) => return refused("an instant of its own, only a delay"),
    };
    if draft.id.is_some() {
        return refused("an identity of its own");
    }
    if draft.dedupe.is_some() {
        return refused("a uniqueness of its own");
    }
    if matches!(draft.via, Via::Transport(_)) {
        return refused("a transport of its own");
    }
    if draft.group.is_some() {
        return refused("a group of its own");
    }
    if draft.relations.limit.is_some()
        || draft.relations.batch.is_some()
        || draft.relations.waits_for.is_some()
    {
        return refused("a limit or a batch of its own");
    }
    Ok(Link {
        on,
        topic: draft.topic,
        queue: draft.queue,
        priority: draft.priority,
        key: draft.key,
        body: draft.body,
        headers: draft.headers,
        delay,
        handler_options: (!draft.handler_options.is_empty())
            .then(|| std::sync::Arc::new(draft.handler_options)),
        then: draft.relations.then,
    })
}
