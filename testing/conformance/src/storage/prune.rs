//! Prune: which messages and executions are deleted by age, and which are kept.

use punctual::backend::policy::Verdict;
use punctual::backend::storage::{EnqueueResult, Firing, Prune, PruneResult};
use punctual::inspect::{ExecutionFilter, PageRequest};
use punctual::model::{DeadReason, Ending, MessageState, SkipReason};

use super::Fixture;
use super::fixture::{again, at, dead, microsecond_after, together};

behaviours! {
    what_ended_strictly_before_goes_and_what_ended_then_or_later_stays,
    at_most_the_limit_of_each_kind_goes_oldest_first,
    dead_letters_are_pruned_only_on_request,
    pending_and_running_messages_never_go,
    the_cutoff_is_exact_to_the_microsecond_for_messages_executions_and_dead_letters,
    skipped_occurrences_go_like_attempts,
    what_many_prune_at_once_is_counted_once,
    a_pruned_message_can_be_sent_again_as_if_new,
}

async fn prune(f: &Fixture, before: i64, limit: usize, dead: bool) -> (u64, u64) {
    let prune = Prune { before: at(before), limit, dead };
    let PruneResult { messages, executions } = f.storage.prune(prune, at(1_000)).await.unwrap();
    (messages, executions)
}

async fn executions(f: &Fixture) -> usize {
    let all = ExecutionFilter::default();
    f.inspect.executions(all, PageRequest::first(1_000)).await.unwrap().rows.len()
}

// spec: H-17, H-18, H-20
pub async fn what_ended_strictly_before_goes_and_what_ended_then_or_later_stays(f: Fixture) {
    let old = f.finish(f.message(), Verdict::Done, at(9)).await;
    let limit = f.finish(f.message(), Verdict::Done, at(10)).await;
    let recent = f.finish(f.message(), Verdict::Cancelled, at(11)).await;
    assert_eq!(prune(&f, 10, 100, false).await, (1, 1));
    assert_eq!(prune(&f, 10, 100, false).await, (0, 0));
    assert_eq!(f.state(old).await, None);
    assert_eq!(f.state(limit).await, Some(MessageState::Done));
    assert_eq!(f.state(recent).await, Some(MessageState::Cancelled));
    assert_eq!(executions(&f).await, 2);
}

pub async fn at_most_the_limit_of_each_kind_goes_oldest_first(f: Fixture) {
    let mut ids = Vec::new();
    for second in [3, 1, 2] {
        ids.push(f.finish(f.message(), Verdict::Done, at(second)).await);
    }
    assert_eq!(prune(&f, 100, 2, false).await, (2, 2));
    assert_eq!(f.state(ids[0]).await, Some(MessageState::Done), "it ended last");
    assert_eq!(prune(&f, 100, 2, false).await, (1, 1));
}

pub async fn dead_letters_are_pruned_only_on_request(f: Fixture) {
    let verdict = Verdict::Dead { reason: DeadReason::Poison, error: None };
    let id = f.finish(f.message(), verdict, at(1)).await;
    assert_eq!(prune(&f, 100, 9, false).await, (0, 1));
    assert_eq!(f.state(id).await, Some(MessageState::Dead));
    assert_eq!(prune(&f, 100, 9, true).await, (1, 0));
    assert_eq!(f.state(id).await, None);
}

pub async fn pending_and_running_messages_never_go(f: Fixture) {
    let retried = f.enqueue(f.message()).await;
    let claimed = f.claim_one(at(0)).await;
    f.settle(&claimed, again(&claimed, at(500)), at(1)).await;
    let running = f.enqueue(f.message()).await;
    f.claim_one(at(0)).await;
    assert_eq!(prune(&f, 10_000, 9, true).await, (0, 1));
    assert_eq!(f.state(retried).await, Some(MessageState::Pending));
    assert_eq!(f.state(running).await, Some(MessageState::Running));
}

// spec: H-18
pub async fn the_cutoff_is_exact_to_the_microsecond_for_messages_executions_and_dead_letters(
    f: Fixture,
) {
    for verdict in [Verdict::Done, Verdict::Cancelled, dead()] {
        f.finish(f.message(), verdict.clone(), at(10)).await;
        f.finish(f.message(), verdict, microsecond_after(at(10))).await;
    }
    assert_eq!(prune(&f, 10, 99, true).await, (0, 0), "exactly at the cutoff is not before it");
    let before = microsecond_after(at(10));
    let pruned = f.storage.prune(Prune { before, limit: 99, dead: true }, at(99)).await.unwrap();
    assert_eq!(pruned, PruneResult { messages: 3, executions: 3 });
    let counts = f.inspect.counts(at(99)).await.unwrap();
    assert_eq!(counts.messages.values().sum::<u64>(), 3);
}

// spec: H-17
pub async fn skipped_occurrences_go_like_attempts(f: Fixture) {
    let job = f.declare(Fixture::job("report", Some(at(0)))).await;
    f.enqueue(f.run_of("report", at(-60))).await;
    let claimed = f.claim_one(at(0)).await;
    let mut skipped = f.execution(&claimed, at(1));
    skipped.message = None;
    skipped.ending = Ending::Skipped(SkipReason::Misfire);
    let firing =
        Firing { messages: vec![], skipped: vec![skipped], ..f.firing(&job, at(0), at(60)) };
    f.storage.fire(vec![firing], at(1)).await.unwrap();
    assert_eq!(prune(&f, 1, 9, true).await, (0, 0));
    assert_eq!(prune(&f, 2, 9, true).await, (0, 1));
    assert_eq!(f.stored_job(&job.job.name).await.runs, 1, "jobs are not history");
}

pub async fn what_many_prune_at_once_is_counted_once(f: Fixture) {
    f.enqueue_many(60).await;
    for one in f.claim(f.process(), 60, at(0)).await {
        f.settle(&one, Verdict::Done, at(1)).await;
    }
    let nodes = f.nodes(4).await;
    let pruned = together(nodes, |node| async move {
        let (mut messages, mut executions) = (0, 0);
        for _ in 0..100 {
            let (some, more) = prune(&node, 10, 7, false).await;
            if some + more == 0 {
                break;
            }
            assert!(some <= 7 && more <= 7);
            (messages, executions) = (messages + some, executions + more);
        }
        (messages, executions)
    });
    let pruned = pruned.await;
    assert_eq!(pruned.iter().map(|(messages, _)| messages).sum::<u64>(), 60);
    assert_eq!(pruned.iter().map(|(_, executions)| executions).sum::<u64>(), 60);
}

pub async fn a_pruned_message_can_be_sent_again_as_if_new(f: Fixture) {
    let message = f.deduplicated("order");
    let id = f.finish(message.clone(), Verdict::Done, at(1)).await;
    assert_eq!(f.try_enqueue(message.clone()).await, EnqueueResult::Duplicate(id));
    assert_eq!(prune(&f, 10, 9, false).await, (1, 1));
    assert_eq!(f.try_enqueue(message).await, EnqueueResult::Stored);
}
