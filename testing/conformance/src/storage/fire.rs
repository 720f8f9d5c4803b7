//! Fire: an occurrence becomes a message exactly once, and the cursor moves in the same step.

use punctual::backend::storage::{FireResult, Firing, JobCommandResult};
use punctual::inspect::{ExecutionFilter, PageRequest};
use punctual::model::{
    Ending, JobCommand, JobName, JobRecord, Message, MessageState, Retirement, SkipReason,
};

use super::Fixture;
use super::fixture::{at, at_once, ids_of, seconds, together};

behaviours! {
    firing_inserts_the_messages_and_moves_the_cursor,
    many_nodes_fire_an_occurrence_once,
    many_nodes_fire_a_schedule_without_gaps_or_duplicates,
    a_repeated_firing_reports_already_moved_and_duplicates_nothing,
    a_firing_stores_the_resulting_record,
    a_firing_may_bring_many_messages_and_a_call_many_firings,
    of_a_firing_and_an_operator_at_once_exactly_one_succeeds,
    a_firing_is_refused_while_more_messages_are_alive_than_allowed,
    a_firing_may_cancel_what_is_alive_of_its_job,
    a_message_that_is_planned_for_later_does_not_block_a_firing,
    each_firing_is_independent,
    skipped_occurrences_are_history_without_a_message,
    an_occurrence_that_is_alive_is_not_duplicated_when_the_cursor_was_moved_back,
}

pub async fn firing_inserts_the_messages_and_moves_the_cursor(f: Fixture) {
    let job = f.declare(Fixture::job("report", Some(at(0)))).await;
    let firing = f.firing(&job, at(0), at(60));
    let id = firing.messages[0].id;
    assert_eq!(f.storage.fire(vec![firing], at(1)).await.unwrap(), [FireResult::Fired]);
    let after = f.stored_job(&job.job.name).await;
    assert_eq!((after.cursor, after.last_nominal), (Some(at(60)), Some(at(0))));
    assert_eq!((after.runs, after.version), (1, job.version + 1));
    assert_eq!(f.storage.due_jobs(9, at(59)).await.unwrap(), []);
    assert_eq!(ids_of(&f.claim(f.process(), 9, at(1)).await), [id]);
}

// spec: H-60, T-23
pub async fn many_nodes_fire_an_occurrence_once(f: Fixture) {
    let job = f.declare(Fixture::job("report", Some(at(0)))).await;
    let nodes = f.nodes(4).await.into_iter().cycle().take(16).collect();
    let results = together(nodes, |node| {
        let firing = node.firing(&job, at(0), at(60));
        async move { node.storage.fire(vec![firing], at(1)).await.unwrap()[0] }
    });
    let (fired, others): (Vec<_>, Vec<_>) =
        results.await.into_iter().partition(|result| *result == FireResult::Fired);
    assert_eq!(fired.len(), 1);
    assert_eq!(others, [FireResult::AlreadyMoved; 15]);
    assert_eq!(f.claim(f.process(), 9, at(1)).await.len(), 1);
}

/// Several schedulers fire one job's occurrences, each those that it finds due.
pub async fn many_nodes_fire_a_schedule_without_gaps_or_duplicates(f: Fixture) {
    const RUNS: i64 = 12;
    f.declare(Fixture::job("report", Some(at(0)))).await;
    let fired = together(f.nodes(4).await, |node| async move {
        let mut fired = Vec::new();
        // Each poll fires an occurrence, or finds that another node has fired it.
        for _ in 0..1_000 {
            let due = node.storage.due_jobs(9, at(60 * (RUNS - 1))).await.unwrap();
            let Some(due) = due.into_iter().next() else { break };
            let nominal = due.record.cursor.unwrap();
            let firing = node.firing(&due.record, nominal, nominal + seconds(60));
            if node.storage.fire(vec![firing], nominal).await.unwrap()[0] == FireResult::Fired {
                fired.push(nominal);
            }
        }
        fired
    });
    let mut fired = fired.await.concat();
    fired.sort_unstable();
    let expected: Vec<_> = (0..RUNS).map(|run| at(60 * run)).collect();
    assert_eq!(fired, expected);
    let job = f.stored_job(&JobName::new("report").unwrap()).await;
    assert_eq!((job.runs, job.version), (12, 13));
    assert_eq!(f.claim(f.process(), 99, at(9_999)).await.len(), 12);
}

pub async fn a_repeated_firing_reports_already_moved_and_duplicates_nothing(f: Fixture) {
    let job = f.declare(Fixture::job("report", Some(at(0)))).await;
    let firing = f.firing(&job, at(0), at(60));
    assert_eq!(f.storage.fire(vec![firing.clone()], at(1)).await.unwrap(), [FireResult::Fired]);
    let stored = f.stored_job(&job.job.name).await;
    assert_eq!(f.storage.fire(vec![firing], at(2)).await.unwrap(), [FireResult::AlreadyMoved]);
    assert_eq!(f.stored_job(&job.job.name).await, stored);
    assert_eq!(f.claim(f.process(), 9, at(2)).await.len(), 1);
}

pub async fn a_firing_stores_the_resulting_record(f: Fixture) {
    let job = f.declare(Fixture::job("report", Some(at(0)))).await;
    let firing = f.firing(&job, at(0), at(60));
    let after = JobRecord { retired: Some(Retirement::Finished), ..*firing.after };
    let firing = Firing { after: Box::new(after.clone()), ..firing };
    assert_eq!(f.storage.fire(vec![firing], at(1)).await.unwrap(), [FireResult::Fired]);
    let stored = f.stored_job(&job.job.name).await;
    let expected = JobRecord { version: 2, updated_at: stored.updated_at, ..after };
    assert_eq!(stored, expected);
    assert_eq!(f.storage.due_jobs(9, at(9_999)).await.unwrap(), []);
}

pub async fn a_firing_may_bring_many_messages_and_a_call_many_firings(f: Fixture) {
    let mut firings = Vec::new();
    for index in 0..100 {
        let job = f.declare(Fixture::job(&format!("job {index}"), Some(at(0)))).await;
        let runs = (0..5).map(|run| f.run_of(job.job.name.as_str(), at(-run)).into());
        firings.push(Firing { messages: runs.collect(), ..f.firing(&job, at(0), at(60)) });
    }
    let results = f.storage.fire(firings, at(1)).await.unwrap();
    assert_eq!(results, vec![FireResult::Fired; 100]);
    assert_eq!(f.claim(f.process(), 1_000, at(1)).await.len(), 500);
    assert_eq!(f.storage.due_jobs(200, at(60)).await.unwrap().len(), 100);
}

pub async fn of_a_firing_and_an_operator_at_once_exactly_one_succeeds(f: Fixture) {
    let other = f.another_node().await;
    for index in 0..10 {
        let job = f.declare(Fixture::job(&format!("job {index}"), Some(at(0)))).await;
        let (scheduler, operator) = (f.clone(), other.clone());
        let (firing, name) = (f.firing(&job, at(0), at(60)), job.job.name.clone());
        let pause = JobCommand::Pause { by: String::new(), reason: String::new(), until: None };
        let (fired, commanded) = at_once(
            async move { scheduler.storage.fire(vec![firing], at(1)).await.unwrap()[0] },
            async move { operator.storage.command_job(&name, pause, 1, at(1)).await.unwrap() },
        )
        .await;
        let stored = f.stored_job(&job.job.name).await;
        assert_eq!(stored.version, 2);
        match fired {
            FireResult::Fired => {
                assert!(commanded == JobCommandResult::Raced && stored.paused.is_none());
            }
            result => {
                assert_eq!((result, stored.runs), (FireResult::AlreadyMoved, 0));
                assert_eq!(commanded, JobCommandResult::Applied(Box::new(stored)));
            }
        }
    }
}

pub async fn a_firing_is_refused_while_more_messages_are_alive_than_allowed(f: Fixture) {
    let job = f.declare(Fixture::job("report", Some(at(0)))).await;
    let older = f.enqueue(f.run_of("report", at(-60))).await;
    let limited = Firing { alive_max: Some(0), ..f.firing(&job, at(0), at(60)) };
    let results = f.storage.fire(vec![limited.clone()], at(1)).await.unwrap();
    assert_eq!(results, [FireResult::Overlapping(1)]);
    assert_eq!(f.stored_job(&job.job.name).await, job, "nothing was written");
    assert_eq!(ids_of(&f.claim(f.process(), 9, at(1)).await), [older]);
    let results = f.storage.fire(vec![limited.clone()], at(1)).await.unwrap();
    assert_eq!(results, [FireResult::Overlapping(1)], "a running one is alive too");
    let wider = Firing { alive_max: Some(1), ..limited };
    assert_eq!(f.storage.fire(vec![wider], at(1)).await.unwrap(), [FireResult::Fired]);
}

pub async fn a_firing_may_cancel_what_is_alive_of_its_job(f: Fixture) {
    let job = f.declare(Fixture::job("report", Some(at(0)))).await;
    let running = f.enqueue(f.run_of("report", at(-60))).await;
    assert_eq!(f.claim(f.process(), 1, at(0)).await.len(), 1);
    let pending = f.enqueue(f.run_of("report", at(-30))).await;
    let other = f.enqueue(f.run_of("other", at(-30))).await;
    let firing = Firing { cancel_alive: true, ..f.firing(&job, at(0), at(60)) };
    let fresh = firing.messages[0].id;
    assert_eq!(f.storage.fire(vec![firing], at(1)).await.unwrap(), [FireResult::Fired]);
    assert!(f.record(running).await.cancel_requested);
    assert_eq!(f.state(pending).await, Some(MessageState::Cancelled));
    assert_eq!(f.state(other).await, Some(MessageState::Pending));
    assert_eq!(f.state(fresh).await, Some(MessageState::Pending));
}

pub async fn a_message_that_is_planned_for_later_does_not_block_a_firing(f: Fixture) {
    let job = f.declare(Fixture::job("report", Some(at(0)))).await;
    let planned = Message { due_at: at(500), ..f.run_of("report", at(500)) };
    let planned = f.enqueue(planned).await;
    assert_eq!(f.storage.due_jobs(9, at(1)).await.unwrap()[0].alive, 0);
    let strict = Firing { alive_max: Some(0), ..f.firing(&job, at(0), at(60)) };
    let fired = strict.messages[0].id;
    assert_eq!(f.storage.fire(vec![strict], at(1)).await.unwrap(), [FireResult::Fired]);
    let job = f.stored_job(&job.job.name).await;
    let replacing = Firing { cancel_alive: true, ..f.firing(&job, at(60), at(120)) };
    assert_eq!(f.storage.fire(vec![replacing], at(61)).await.unwrap(), [FireResult::Fired]);
    assert_eq!(f.state(fired).await, Some(MessageState::Cancelled));
    assert_eq!(
        f.state(planned).await,
        Some(MessageState::Pending),
        "a firing does not cancel it either"
    );
    let job = f.stored_job(&job.job.name).await;
    let late = Firing { alive_max: Some(1), ..f.firing(&job, at(120), at(560)) };
    let results = f.storage.fire(vec![late], at(500)).await.unwrap();
    assert_eq!(results, [FireResult::Overlapping(2)], "a due message overlaps");
}

pub async fn each_firing_is_independent(f: Fixture) {
    let job = f.declare(Fixture::job("report", Some(at(0)))).await;
    let stale = Firing { seen: 9, ..f.firing(&job, at(0), at(60)) };
    let gone = f.firing(&Fixture::job("unknown", None), at(0), at(60));
    let good = f.firing(&job, at(0), at(60));
    let second = f.firing(&job, at(0), at(60));
    let results = f.storage.fire(vec![stale, gone, good, second], at(1)).await.unwrap();
    let expected = [
        FireResult::AlreadyMoved,
        FireResult::AlreadyMoved,
        FireResult::Fired,
        FireResult::AlreadyMoved,
    ];
    assert_eq!(results, expected);
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
    assert_eq!(f.storage.fire(vec![firing], at(1)).await.unwrap(), [FireResult::Fired]);
    let filter = ExecutionFilter { endings: vec!["skipped"], ..ExecutionFilter::default() };
    let history = f.inspect.executions(filter, PageRequest::first(9)).await.unwrap().rows;
    assert_eq!((history.len(), history[0].message), (1, None));
    assert_eq!(f.claim(f.process(), 9, at(1)).await, []);
}

pub async fn an_occurrence_that_is_alive_is_not_duplicated_when_the_cursor_was_moved_back(
    f: Fixture,
) {
    let job = f.declare(Fixture::job("report", Some(at(0)))).await;
    f.storage.fire(vec![f.firing(&job, at(0), at(60))], at(1)).await.unwrap();
    let moved_back = f.stored_job(&job.job.name).await;
    let again = f.firing(&moved_back, at(0), at(60));
    assert_eq!(f.storage.fire(vec![again], at(2)).await.unwrap(), [FireResult::Fired]);
    assert_eq!(f.claim(f.process(), 9, at(2)).await.len(), 1);
}
