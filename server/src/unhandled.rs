//! Handled topics per queue of all known processes, from the process registry, so that health can report messages
//! that no process handles.

use std::collections::{BTreeMap, BTreeSet};

use punctual::Result;
use punctual::analysis::KnownProcess;
use punctual::backend::storage::TopicFilter;
use punctual::model::{Queue, Topic};

use crate::app::App;
use crate::why_facts::workers;

/// Returns the topics that known processes handle on each queue.
pub(crate) async fn handled_topics(app: &App) -> Result<Vec<(Queue, TopicFilter)>> {
    Ok(handled(workers(app).await?))
}

/// Returns the topics that are handled on each queue. A queue with a process for all topics is omitted.
fn handled(processes: Vec<KnownProcess>) -> Vec<(Queue, TopicFilter)> {
    let mut queues: BTreeMap<Queue, Option<BTreeSet<Topic>>> = BTreeMap::new();
    for KnownProcess { queues: served, topics } in processes {
        for queue in served {
            let known = queues.entry(queue).or_insert_with(|| Some(BTreeSet::new()));
            match (&topics, known.as_mut()) {
                (Some(topics), Some(known)) => known.extend(topics.iter().cloned()),
                (Some(_), None) => {}
                (None, _) => *known = None,
            }
        }
    }
    let known = queues.into_iter();
    known.filter_map(|(queue, topics)| Some((queue, TopicFilter::only(topics?)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(name: &str) -> Queue {
        Queue::new(name).unwrap()
    }

    fn topics(names: &[&str]) -> Vec<Topic> {
        names.iter().map(|name| Topic::new(name).unwrap()).collect()
    }

    fn process(queues: &[&str], handled: Option<&[&str]>) -> KnownProcess {
        let queues = queues.iter().map(|name| queue(name)).collect();
        KnownProcess { queues, topics: handled.map(topics) }
    }

    #[test]
    fn the_topics_of_all_processes_of_a_queue_are_handled_there() {
        let handled = handled(vec![
            process(&["a", "b"], Some(&["mail"])),
            process(&["a"], Some(&["fax", "mail"])),
            process(&["c"], Some(&["mail"])),
            process(&["c"], None),
        ]);
        let only = |names: &[&str]| TopicFilter::only(topics(names));
        assert_eq!(handled, [(queue("a"), only(&["fax", "mail"])), (queue("b"), only(&["mail"]))]);
    }
}
