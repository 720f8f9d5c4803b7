//! Unhandled messages in the health of a process: the oldest due message of a queue without a known handler for
//! its topic. Claims skip it and no process fails it, so only the health reports it. A process has only its own
//! handlers; recently handled topics of others are read from their running messages and executions.

use jiff::Timestamp;

use crate::engine::Process;
use crate::error::Result;
use crate::health::{UNHANDLED_AFTER, UnhandledMessage};
use crate::inspect::{Counts, ExecutionFilter, MessageFilter, PageRequest};
use crate::model::time::between;
use crate::model::{Ending, MessageState, Queue, Topic};
use crate::storage::{TopicFilter, WakeSource};

/// The most queues that are checked.
const QUEUES_MAX: usize = 100;
/// The most messages of a queue that are searched for the late one, newest first.
const MESSAGES_MAX: usize = 100;

/// Returns a message of each queue that is late because no handler of its topic is known. `handled` are the topics
/// that all processes handle on each queue; without it the handlers of this process and the topics that others
/// handled recently count.
pub(super) async fn unhandled(
    process: &Process,
    counts: &Counts,
    handled: Option<&[(Queue, TopicFilter)]>,
    now: Timestamp,
) -> Result<Vec<UnhandledMessage>> {
    let own = if handled.is_none() { handled_here(process, counts) } else { Vec::new() };
    let all_handlers_known = handled.is_some();
    let handled = handled.unwrap_or(&own).iter().filter(|(_, topics)| !topics.is_all());
    let handled: Vec<&(Queue, TopicFilter)> = handled.take(QUEUES_MAX).collect();
    if handled.is_empty() {
        return Ok(Vec::new());
    }
    let sources = handled.iter().flat_map(|(queue, topics)| {
        [WakeSource::Queue(queue.clone()), WakeSource::Topics(queue.clone(), topics.clone())]
    });
    let due = process.env.storage.next_due_all(&sources.collect::<Vec<_>>()).await?;
    let mut found = Vec::new();
    for ((queue, topics), due) in handled.into_iter().zip(due.chunks_exact(2)) {
        let &[Some(due_at), handled_at] = due else { continue };
        if between(due_at, now) < UNHANDLED_AFTER {
            continue;
        }
        let topic = topic_of(process, queue, topics, due_at).await?;
        // Behind many messages of other topics the due time of a filter is too early.
        let is_skipped = handled_at.is_none_or(|handled_at| handled_at > due_at);
        let is_unhandled = match &topic {
            Some(topic) => {
                all_handlers_known || !is_recently_handled(process, queue, topic, now).await?
            }
            None => is_skipped && (all_handlers_known || !others_run(process, counts, queue)),
        };
        if is_unhandled {
            let queue = queue.clone();
            found.push(UnhandledMessage { queue, topic, due_at, all_handlers_known });
        }
    }
    Ok(found)
}

/// Returns the queues with pending messages that this process works on, each with the topics of its handlers.
fn handled_here(process: &Process, counts: &Counts) -> Vec<(Queue, TopicFilter)> {
    let pending = counts
        .messages
        .iter()
        .filter(|((_, state), count)| *state == MessageState::Pending && **count > 0);
    let served = pending
        .map(|((queue, _), _)| queue)
        .filter(|queue| !queue.is_relay() && process.queues.serves(queue));
    served.map(|queue| (queue.clone(), process.runner.registry.filter())).collect()
}

/// Returns the topic of a message that is due since an instant and that a filter does not admit, when it is
/// among the newest that wait.
async fn topic_of(
    process: &Process,
    queue: &Queue,
    topics: &TopicFilter,
    due_at: Timestamp,
) -> Result<Option<Topic>> {
    let (states, queue) = (vec![MessageState::Pending], Some(queue.clone()));
    let filter = MessageFilter { states, queue, ..MessageFilter::default() };
    let page = process.env.inspect.messages(filter, PageRequest::first(MESSAGES_MAX)).await?;
    let mut rows = page.rows.into_iter();
    let late = rows.find(|row| row.due_at == due_at && !topics.admits(&row.message.topic));
    Ok(late.map(|row| row.message.topic.clone()))
}

/// Returns whether a message of a topic is running, or a run has ended within [`UNHANDLED_AFTER`].
async fn is_recently_handled(
    process: &Process,
    queue: &Queue,
    topic: &Topic,
    now: Timestamp,
) -> Result<bool> {
    let filter = ExecutionFilter { topic: Some(topic.clone()), ..ExecutionFilter::runs() };
    let last = process.env.inspect.executions(filter, PageRequest::first(1)).await?.rows.pop();
    let is_recent = last.is_some_and(|run| {
        run.ending != Ending::NoHandler && between(run.ended_at, now) < UNHANDLED_AFTER
    });
    if is_recent {
        return Ok(true);
    }
    let filter = MessageFilter {
        states: vec![MessageState::Running],
        queue: Some(queue.clone()),
        topic: Some(topic.clone()),
        ..MessageFilter::default()
    };
    Ok(!process.env.inspect.messages(filter, PageRequest::first(1)).await?.rows.is_empty())
}

/// Returns whether other processes run messages of a queue.
fn others_run(process: &Process, counts: &Counts, queue: &Queue) -> bool {
    let running =
        counts.messages.get(&(queue.clone(), MessageState::Running)).copied().unwrap_or(0);
    let status = process.queues.all().into_iter().find(|status| status.queue == *queue);
    running > status.map_or(0, |status| status.running as u64)
}
