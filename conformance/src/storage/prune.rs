//! Prune: what is old enough to go, and what stays.

use punctual::inspect::{ExecutionFilter, Page};
use punctual::model::{DeadReason, State};
use punctual::policy::Verdict;
use punctual::storage::{Prune, Pruned};

use super::Fixture;
use super::fixture::{again, at};

behaviours! {
    what_ended_strictly_before_goes_and_what_ended_then_or_later_stays,
    at_most_the_limit_of_each_kind_goes_oldest_first,
    dead_letters_go_only_when_asked_for,
    pending_and_running_messages_never_go,
}

async fn prune(f: &Fixture, before: i64, limit: usize, dead: bool) -> (u64, u64) {
    let prune = Prune { before: at(before), limit, dead };
    let Pruned { messages, executions } = f.storage.prune(prune, at(1_000)).await.unwrap();
    (messages, executions)
}

async fn executions(f: &Fixture) -> usize {
    let all = ExecutionFilter::default();
    f.inspect.executions(all, Page::first(1_000)).await.unwrap().rows.len()
}

// spec: H-17, H-18, H-20
pub async fn what_ended_strictly_before_goes_and_what_ended_then_or_later_stays(f: Fixture) {
    let old = f.finish(f.message(), Verdict::Done, at(9)).await;
    let limit = f.finish(f.message(), Verdict::Done, at(10)).await;
    let recent = f.finish(f.message(), Verdict::Cancelled, at(11)).await;
    assert_eq!(prune(&f, 10, 100, false).await, (1, 1));
    assert_eq!(prune(&f, 10, 100, false).await, (0, 0));
    assert_eq!(f.state(old).await, None);
    assert_eq!(f.state(limit).await, Some(State::Done));
    assert_eq!(f.state(recent).await, Some(State::Cancelled));
    assert_eq!(executions(&f).await, 2);
}

pub async fn at_most_the_limit_of_each_kind_goes_oldest_first(f: Fixture) {
    let mut ids = Vec::new();
    for second in [3, 1, 2] {
        ids.push(f.finish(f.message(), Verdict::Done, at(second)).await);
    }
    assert_eq!(prune(&f, 100, 2, false).await, (2, 2));
    assert_eq!(f.state(ids[0]).await, Some(State::Done), "it ended last");
    assert_eq!(prune(&f, 100, 2, false).await, (1, 1));
}

pub async fn dead_letters_go_only_when_asked_for(f: Fixture) {
    let verdict = Verdict::Dead { reason: DeadReason::Poison, error: None };
    let id = f.finish(f.message(), verdict, at(1)).await;
    assert_eq!(prune(&f, 100, 9, false).await, (0, 1));
    assert_eq!(f.state(id).await, Some(State::Dead));
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
    assert_eq!(f.state(retried).await, Some(State::Pending));
    assert_eq!(f.state(running).await, Some(State::Running));
}
