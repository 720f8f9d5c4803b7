//! Messages that are due and that no known process handles. They are not failed and not delayed, so health has
//! to say that they wait. The register of processes tells who works on which queue and handles which topics.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use punctual::Result;
use punctual::clock::subtract;
use punctual::model::{Queue, Topic};
use punctual::storage::{Line, TopicFilter};

use crate::app::App;
use crate::surroundings::workers;
use crate::why::Worker;

/// How long a message may be due before it is mentioned.
const NOTED_AFTER: Duration = Duration::from_secs(60);
/// The most queues that are looked at.
const QUEUES_MAX: usize = 100;

/// Returns a sentence for each queue with a due message of a topic that no known process handles.
pub(crate) async fn reasons(app: &App) -> Result<Vec<String>> {
    let handled = handled(&workers(app).await?);
    let lines: Vec<Line> = handled
        .iter()
        .flat_map(|(queue, topics)| {
            [Line::Queue(queue.clone()), Line::Topics(queue.clone(), topics.clone())]
        })
        .collect();
    let due = app.storage.look(&lines).await?;
    let before = subtract(app.clock.now(), NOTED_AFTER);
    let mut reasons = Vec::new();
    for ((queue, _), due) in handled.iter().zip(due.chunks_exact(2)) {
        if let [Some(first), handled] = due
            && *first <= before
            && handled.is_none_or(|handled| handled > *first)
        {
            reasons.push(format!(
                "the queue {queue:?} holds a message that is due since {first}, and no known process handles its topic"
            ));
        }
    }
    Ok(reasons)
}

/// Returns the topics that are handled on each queue. A queue with a worker that takes whatever comes is left
/// out.
fn handled(workers: &[Worker]) -> Vec<(Queue, TopicFilter)> {
    let mut queues: BTreeMap<&str, Option<BTreeSet<&str>>> = BTreeMap::new();
    for worker in workers {
        for queue in &worker.queues {
            let topics = queues.entry(queue).or_insert_with(|| Some(BTreeSet::new()));
            match &worker.topics {
                Some(more) => {
                    if let Some(topics) = topics {
                        topics.extend(more.iter().map(String::as_str));
                    }
                }
                None => *topics = None,
            }
        }
    }
    let known = queues.into_iter().filter_map(|(queue, topics)| {
        let topics = topics?.into_iter().filter_map(|topic| Topic::stored(topic).ok());
        Some((Queue::from(queue.to_owned()), TopicFilter::only(topics)))
    });
    known.take(QUEUES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(queues: &[&str], topics: Option<&[&str]>) -> Worker {
        let texts = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        Worker { queues: texts(queues), topics: topics.map(texts) }
    }

    #[test]
    fn the_topics_of_all_who_work_on_a_queue_are_handled_there() {
        let handled = handled(&[
            worker(&["a", "b"], Some(&["mail"])),
            worker(&["a"], Some(&["fax", "mail"])),
            worker(&["c"], Some(&["mail"])),
            worker(&["c"], None),
        ]);
        let only =
            |names: &[&str]| TopicFilter::only(names.iter().map(|name| Topic::new(name).unwrap()));
        let queue = |name: &str| Queue::new(name).unwrap();
        assert_eq!(handled, [(queue("a"), only(&["fax", "mail"])), (queue("b"), only(&["mail"]))]);
    }
}
