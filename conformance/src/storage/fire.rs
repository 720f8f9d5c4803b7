//! Fire: an occurrence becomes a message once, whoever tries, and the cursor moves with it.

use punctual::inspect::{ExecutionFilter, Page};
use punctual::model::{Ending, SkipReason, State};
use punctual::storage::{Fired, Firing};

use super::Fixture;
use super::fixture::{at, ids_of};

behaviours! {
    firing_inserts_the_messages_and_moves_the_cursor,
    many_nodes_fire_an_occurrence_once,
    a_firing_is_refused_while_more_messages_are_alive_than_allowed,
    a_firing_may_cancel_what_is_alive_of_its_job,
    each_firing_stands_for_itself,
    skipped_occurrences_are_history_without_a_message,
    an_occurrence_that_is_alive_is_not_doubled_when_the_cursor_was_moved_back,
}

pub async fn firing_inserts_the_messages_and_moves_the_cursor(f: Fixture) {
    let job = f.declare(Fixture::job("report", Some(at(0)))).await;
    let firing = f.firing(&job, at(0), at(60));
    let id = firing.messages[0].id;
    assert_eq!(f.storage.fire(vec![firing], at(1)).await.unwrap(), [Fired::Fired]);
    let after = f.stored_job(&job.job.name).await;
    assert_eq!((after.cursor, after.last_nominal), (Some(at(60)), Some(at(0))));
    assert_eq!((after.runs, after.version), (1, job.version + 1));
    assert_eq!(f.storage.due_jobs(9, at(59)).await.unwrap(), []);
    assert_eq!(ids_of(&f.claim(f.process(), 9, at(1)).await), [id]);
}

// spec: H-60, T-23
pub async fn many_nodes_fire_an_occurrence_once(f: Fixture) {
    let job = f.declare(Fixture::job("report", Some(at(0)))).await;
    let nodes: Vec<_> = (0..16)
        .map(|_| {
            let (f, firing) = (f.clone(), f.firing(&job, at(0), at(60)));
            tokio::spawn(async move { f.storage.fire(vec![firing], at(1)).await.unwrap()[0] })
        })
        .collect();
    let mut fired = 0;
    for node in nodes {
        match node.await.unwrap() {
            Fired::Fired => fired += 1,
            other => assert_eq!(other, Fired::AlreadyMoved),
        }
    }
    assert_eq!(fired, 1);
    assert_eq!(f.claim(f.process(), 9, at(1)).await.len(), 1);
}

pub async fn a_firing_is_refused_while_more_messages_are_alive_than_allowed(f: Fixture) {
    let job = f.declare(Fixture::job("report", Some(at(0)))).await;
    let older = f.enqueue(f.run_of("report", at(-60))).await;
    let limited = Firing { alive_max: Some(0), ..f.firing(&job, at(0), at(60)) };
    let answers = f.storage.fire(vec![limited.clone()], at(1)).await.unwrap();
    assert_eq!(answers, [Fired::Overlapping(1)]);
    assert_eq!(f.stored_job(&job.job.name).await, job, "nothing was written");
    assert_eq!(ids_of(&f.claim(f.process(), 9, at(1)).await), [older]);
    let answers = f.storage.fire(vec![limited.clone()], at(1)).await.unwrap();
    assert_eq!(answers, [Fired::Overlapping(1)], "a running one is alive too");
    let wider = Firing { alive_max: Some(1), ..limited };
    assert_eq!(f.storage.fire(vec![wider], at(1)).await.unwrap(), [Fired::Fired]);
}

pub async fn a_firing_may_cancel_what_is_alive_of_its_job(f: Fixture) {
    let job = f.declare(Fixture::job("report", Some(at(0)))).await;
    let running = f.enqueue(f.run_of("report", at(-60))).await;
    assert_eq!(f.claim(f.process(), 1, at(0)).await.len(), 1);
    let pending = f.enqueue(f.run_of("report", at(-30))).await;
    let other = f.enqueue(f.run_of("other", at(-30))).await;
    let firing = Firing { cancel_alive: true, ..f.firing(&job, at(0), at(60)) };
    let fresh = firing.messages[0].id;
    assert_eq!(f.storage.fire(vec![firing], at(1)).await.unwrap(), [Fired::Fired]);
    assert!(f.record(running).await.cancel_requested);
    assert_eq!(f.state(pending).await, Some(State::Cancelled));
    assert_eq!(f.state(other).await, Some(State::Pending));
    assert_eq!(f.state(fresh).await, Some(State::Pending));
}

pub async fn each_firing_stands_for_itself(f: Fixture) {
    let job = f.declare(Fixture::job("report", Some(at(0)))).await;
    let stale = Firing { seen: 9, ..f.firing(&job, at(0), at(60)) };
    let gone = f.firing(&Fixture::job("unheard of", None), at(0), at(60));
    let good = f.firing(&job, at(0), at(60));
    let second = f.firing(&job, at(0), at(60));
    let answers = f.storage.fire(vec![stale, gone, good, second], at(1)).await.unwrap();
    let expected = [Fired::AlreadyMoved, Fired::AlreadyMoved, Fired::Fired, Fired::AlreadyMoved];
    assert_eq!(answers, expected);
    assert_eq!(f.claim(f.process(), 9, at(1)).await.len(), 1);
}

pub async fn skipped_occurrences_are_history_without_a_message(f: Fixture) {
    let job = f.declare(Fixture::job("report", Some(at(0)))).await;
    f.enqueue(f.run_of("report", at(-60))).await;
    let claimed = f.claim_one(at(0)).await;
    let mut skipped = f.execution(&claimed, at(1));
    skipped.message = None;
    skipped.ending = Ending::Skipped(SkipReason::Overlap);
    let firing =
        Firing { messages: vec![], skipped: vec![skipped], ..f.firing(&job, at(0), at(60)) };
    assert_eq!(f.storage.fire(vec![firing], at(1)).await.unwrap(), [Fired::Fired]);
    let filter = ExecutionFilter { endings: vec!["skipped"], ..ExecutionFilter::default() };
    let history = f.inspect.executions(filter, Page::first(9)).await.unwrap().rows;
    assert_eq!((history.len(), history[0].message), (1, None));
    assert_eq!(f.claim(f.process(), 9, at(1)).await, []);
}

pub async fn an_occurrence_that_is_alive_is_not_doubled_when_the_cursor_was_moved_back(f: Fixture) {
    let job = f.declare(Fixture::job("report", Some(at(0)))).await;
    f.storage.fire(vec![f.firing(&job, at(0), at(60))], at(1)).await.unwrap();
    let moved_back = f.stored_job(&job.job.name).await;
    let again = f.firing(&moved_back, at(0), at(60));
    assert_eq!(f.storage.fire(vec![again], at(2)).await.unwrap(), [Fired::Fired]);
    assert_eq!(f.claim(f.process(), 9, at(2)).await.len(), 1);
}
