//! Handled topics per queue of all known processes, from the process registry, so that health can report messages
//! that no process handles.

use std::collections::{BTreeMap, BTreeSet};

use punctual::Result;
use punctual::model::{Queue, Topic};
use punctual::storage::TopicFilter;

use crate::app::App;
use crate::why::Worker;
use crate::why_facts::workers;

/// Returns the topics that known processes handle on each queue.
pub(crate) async fn handled_topics(app: &App) -> Result<Vec<(Queue, TopicFilter)>> {
    Ok(handled(&workers(app).await?))
}

/// Returns the topics that are handled on each queue. A queue with a worker for all topics is omitted.
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
    known.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(queues: &[&str], topics: Option<&[&str]>) -> Worker {
        let texts = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        Worker { queues: texts(queues), topics: topics.map(texts) }
    }

    #[test]
    fn the_topics_of_all_workers_of_a_queue_are_handled_there() {
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
