//! Follow-ups: the links of a message, as messages that are stored in the step that ends it. Each carries
//! the message it follows and the result of that message.

use std::sync::Arc;

use crate::environment::Environment;
use crate::model::time::add;
use crate::model::{Body, Correlation, Execution, Link, Message, Parent, Relations, Source};
use crate::policy::{Verdict, followers};

/// Returns the messages that follow from the verdict on a message and the execution that ended it.
pub(crate) fn follow_ups(
    env: &Environment,
    message: &Message,
    verdict: &Verdict,
    execution: &Execution,
    result: Option<Body>,
) -> Vec<Arc<Message>> {
    let parent = Parent {
        message: message.id,
        execution: execution.id,
        ending: execution.ending,
        note: execution.note.clone(),
        result,
    };
    let links = followers(message, verdict).zip(1..);
    links
        .map(|(link, sequence)| {
            let correlation = Correlation {
                id: Some(message.correlation_id(execution.id)),
                causation: Some(execution.id),
                sequence,
            };
            let relations = Relations {
                then: link.then.clone(),
                parent: Some(parent.clone()),
                ..Relations::default()
            };
            Arc::new(Message {
                correlation,
                relations: Some(Arc::new(relations)),
                ..link_message(env, link, execution)
            })
        })
        .collect()
}

/// Returns the message of a link.
fn link_message(env: &Environment, link: &Link, execution: &Execution) -> Message {
    let now = execution.ended_at;
    Message {
        id: env.message_id(now),
        topic: link.topic.clone(),
        queue: link.queue.clone(),
        priority: link.priority,
        due_at: add(now, link.delay),
        created_at: now,
        source: Source::Published,
        key: link.key.clone(),
        dedupe: None,
        exclusive: false,
        body: link.body.clone(),
        headers: link.headers.clone(),
        correlation: Correlation::default(),
        occurrence: None,
        handler_options: link.handler_options.clone(),
        relations: None,
        route: None,
    }
}
