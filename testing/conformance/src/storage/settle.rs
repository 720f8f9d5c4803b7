//! Settle: stores a verdict and its execution in one step, and only with the current token.

use std::collections::BTreeSet;
use std::sync::Arc;

use punctual::backend::policy::{AgainReason, Verdict};
use punctual::backend::storage::{Command, CommandResult, SettleResult, Settlement};
use punctual::model::{DeadReason, Ending, Execution, LeaseRef, Message, MessageState, SkipReason};

use super::Fixture;
use super::fixture::{again, at, at_once, dead, key, together};

behaviours! {
    done_takes_the_message_from_the_queue_and_keeps_its_execution,
    again_stores_exactly_what_was_decided,
    dead_keeps_the_message_with_its_reason,
    a_settlement_with_an_old_token_changes_nothing_and_appends_nothing,
    a_token_settles_once,
    a_lease_that_ended_but_was_not_taken_over_still_settles,
    each_settlement_of_a_batch_is_independent,
    again_is_not_applied_when_a_cancel_was_requested,
    a_handler_that_finished_before_it_learned_of_the_cancel_is_done,
    an_execution_is_stored_once_and_completely_also_when_the_call_is_repeated,
    every_ending_and_every_reason_reads_back,
    results_and_effects_of_a_mixed_batch_belong_to_each_settlement,
    of_many_that_settle_with_one_token_exactly_one_succeeds,
    a_settlement_and_a_takeover_at_once_never_both_succeed,
}

// spec: T-33
pub async fn done_takes_the_message_from_the_queue_and_keeps_its_execution(f: Fixture) {
    let id = f.finish(f.message(), Verdict::Done, at(3)).await;
    let record = f.record(id).await;
    assert_eq!(
        (record.state, record.lease, record.ended_at),
        (MessageState::Done, None, Some(at(3)))
    );
    assert_eq!(f.history(id).await.len(), 1);
    let counts = f.inspect.counts(at(3)).await.unwrap();
    assert_eq!((counts.total(MessageState::Running), counts.total(MessageState::Done)), (0, 1));
    assert_eq!(f.claim(f.process(), 9, at(1_000_000)).await, []);
}

pub async fn again_stores_exactly_what_was_decided(f: Fixture) {
    let id = f.enqueue(f.message()).await;
    let claimed = f.claim_one(at(0)).await;
    let error: Arc<str> = Arc::from("no route to host");
    let verdict = Verdict::Again {
        due_at: at(90),
        attempt: 4,
        crashes: 2,
        snoozes: 3,
        error: Some(error.clone()),
        why: AgainReason::Retry,
    };
    assert_eq!(f.settle(&claimed, verdict, at(1)).await, SettleResult::Applied);
    let record = f.record(id).await;
    assert_eq!((record.state, record.lease, record.due_at), (MessageState::Pending, None, at(90)));
    assert_eq!((record.attempt, record.crashes, record.snoozes), (4, 2, 3));
    assert_eq!(record.error, Some(error.clone()));

    let second = f.claim_one(at(90)).await;
    assert_eq!((second.attempt, second.crashes, second.snoozes), (5, 2, 3));
    f.settle(&second, again(&second, at(95)), at(91)).await;
    assert_eq!(f.record(id).await.error, Some(error.clone()), "the last failure stays the last");

    let third = f.claim_one(at(95)).await;
    f.settle(&third, dead(), at(96)).await;
    assert_eq!(f.record(id).await.error, Some(error), "also as a dead letter");
}

pub async fn dead_keeps_the_message_with_its_reason(f: Fixture) {
    let verdict = Verdict::Dead { reason: DeadReason::Discarded, error: Some(Arc::from("no use")) };
    let id = f.finish(f.message(), verdict, at(3)).await;
    let record = f.record(id).await;
    assert_eq!((record.state, record.ended_at), (MessageState::Dead, Some(at(3))));
    assert_eq!(record.dead, Some(DeadReason::Discarded));
    assert_eq!(record.error.as_deref(), Some("no use"));
}

pub async fn a_settlement_with_an_old_token_changes_nothing_and_appends_nothing(f: Fixture) {
    let id = f.enqueue(f.message()).await;
    let first = f.claim_one(at(0)).await;
    let second = f.reclaim(1, at(61)).await.remove(0);
    let before = f.record(id).await;
    assert_eq!(f.settle(&first, Verdict::Done, at(62)).await, SettleResult::Lost);
    assert_eq!(f.record(id).await, before);
    assert_eq!(f.history(id).await, []);
    assert_eq!(f.settle(&second, Verdict::Done, at(63)).await, SettleResult::Applied);
}

pub async fn a_token_settles_once(f: Fixture) {
    let id = f.enqueue(f.message()).await;
    let claimed = f.claim_one(at(0)).await;
    assert_eq!(f.settle(&claimed, again(&claimed, at(5)), at(1)).await, SettleResult::Applied);
    assert_eq!(f.settle(&claimed, Verdict::Done, at(1)).await, SettleResult::Lost);
    assert_eq!(f.state(id).await, Some(MessageState::Pending));
    assert_eq!(f.history(id).await.len(), 1);
}

pub async fn a_lease_that_ended_but_was_not_taken_over_still_settles(f: Fixture) {
    f.enqueue(f.message()).await;
    let claimed = f.claim_one(at(0)).await;
    assert_eq!(f.settle(&claimed, Verdict::Done, at(10_000)).await, SettleResult::Applied);
}

pub async fn each_settlement_of_a_batch_is_independent(f: Fixture) {
    f.enqueue_many(2).await;
    let claimed = f.claim(f.process(), 2, at(0)).await;
    let unknown = LeaseRef { message: f.message().id, token: claimed[0].lease.token };
    let leases = [claimed[0].lease_ref(), unknown, claimed[1].lease_ref(), claimed[0].lease_ref()];
    let batch = leases.map(|lease| Settlement::new(lease, Verdict::Done, None));
    let results = f.storage.settle(batch.into(), at(1)).await.unwrap();
    assert_eq!(
        results,
        [SettleResult::Applied, SettleResult::Lost, SettleResult::Applied, SettleResult::Lost]
    );
    assert_eq!(f.history(claimed[0].message.id).await, [], "the settlement had no execution");
}

pub async fn again_is_not_applied_when_a_cancel_was_requested(f: Fixture) {
    let id = f.enqueue(f.message()).await;
    let claimed = f.claim_one(at(0)).await;
    assert_eq!(f.command(Command::Cancel(id)).await, CommandResult::Requested);
    let result = f.settle(&claimed, again(&claimed, at(5)), at(2)).await;
    assert_eq!(result, SettleResult::CancelRequested);
    assert_eq!(f.state(id).await, Some(MessageState::Running));
    assert_eq!(f.history(id).await, []);
    assert_eq!(f.settle(&claimed, Verdict::Cancelled, at(2)).await, SettleResult::Applied);
    assert_eq!(f.state(id).await, Some(MessageState::Cancelled));
    assert_eq!(f.history(id).await.len(), 1);
}

pub async fn a_handler_that_finished_before_it_learned_of_the_cancel_is_done(f: Fixture) {
    let id = f.enqueue(f.message()).await;
    let claimed = f.claim_one(at(0)).await;
    f.command(Command::Cancel(id)).await;
    assert_eq!(f.settle(&claimed, Verdict::Done, at(2)).await, SettleResult::Applied);
    let record = f.record(id).await;
    assert_eq!((record.state, record.cancel_requested), (MessageState::Done, false));
}

// spec: U-8, T-52
pub async fn an_execution_is_stored_once_and_completely_also_when_the_call_is_repeated(f: Fixture) {
    let message = f.run_of("report", at(-60));
    let id = f.enqueue(Message { key: Some(key("7")), ..message }).await;
    let claimed = f.claim_one(at(0)).await;
    let execution = Execution {
        attempts_max: Some(5),
        started_at: at(1),
        note: Some(Arc::from("two reports, \"one\" empty")),
        ..f.execution(&claimed, at(3))
    };
    let settlement =
        Settlement::new(claimed.lease_ref(), Verdict::Done, Some(Arc::new(execution.clone())));
    let results = f.storage.settle(vec![settlement.clone()], at(3)).await.unwrap();
    assert_eq!(results, [SettleResult::Applied]);
    assert_eq!(f.history(id).await, std::slice::from_ref(&execution));
    // The response may have been lost.
    let results = f.storage.settle(vec![settlement], at(4)).await.unwrap();
    assert_eq!(results, [SettleResult::Lost]);
    assert_eq!(f.history(id).await, [execution]);
}

// spec: U-8, T-52
pub async fn every_ending_and_every_reason_reads_back(f: Fixture) {
    let endings = [
        Ending::Succeeded,
        Ending::Failed,
        Ending::TimedOut,
        Ending::Panicked,
        Ending::NoHandler,
        Ending::Poison,
        Ending::Snoozed,
        Ending::Discarded,
        Ending::Cancelled,
        Ending::Released,
        Ending::Lost,
        Ending::Skipped(SkipReason::Misfire),
        Ending::Skipped(SkipReason::Window),
        Ending::Skipped(SkipReason::CatchUpLimit),
        Ending::Skipped(SkipReason::Overlap),
        Ending::Skipped(SkipReason::Paused),
        Ending::Skipped(SkipReason::Operator),
    ];
    let names: BTreeSet<&str> = endings.iter().map(|ending| ending.as_str()).collect();
    assert_eq!(names, BTreeSet::from(Ending::NAMES), "every ending is listed here");
    let id = f.enqueue(f.message()).await;
    for ending in endings {
        let claimed = f.claim_one(at(0)).await;
        let execution = Execution { ending, ..f.execution(&claimed, at(0)) };
        f.settle_with(&claimed, again(&claimed, at(0)), execution).await;
        assert_eq!(f.history(id).await[0].ending, ending);
    }
    let reasons = [
        DeadReason::AttemptsSpent,
        DeadReason::Discarded,
        DeadReason::Poison,
        DeadReason::TimedOut,
        DeadReason::CrashLoop,
    ];
    for reason in reasons {
        let claimed = f.claim_one(at(0)).await;
        f.settle(&claimed, Verdict::Dead { reason, error: None }, at(0)).await;
        assert_eq!(f.record(id).await.dead, Some(reason));
        f.command(Command::Redrive { id, due_at: at(0) }).await;
    }
}

pub async fn results_and_effects_of_a_mixed_batch_belong_to_each_settlement(f: Fixture) {
    let ids = f.enqueue_many(6).await;
    let claimed = f.claim(f.process(), 6, at(0)).await;
    f.command(Command::Cancel(ids[1])).await;
    f.settle(&claimed[2], Verdict::Done, at(1)).await;
    let verdicts = [
        Verdict::Done,
        again(&claimed[1], at(50)),
        Verdict::Done,
        dead(),
        again(&claimed[4], at(50)),
        Verdict::Cancelled,
    ];
    let batch = claimed.iter().zip(verdicts).map(|(one, verdict)| {
        Settlement::new(one.lease_ref(), verdict, Some(Arc::new(f.execution(one, at(2)))))
    });
    let results = f.storage.settle(batch.collect(), at(2)).await.unwrap();
    let (applied, asked, lost) =
        (SettleResult::Applied, SettleResult::CancelRequested, SettleResult::Lost);
    assert_eq!(results, [applied, asked, lost, applied, applied, applied]);
    let states = [
        MessageState::Done,
        MessageState::Running,
        MessageState::Done,
        MessageState::Dead,
        MessageState::Pending,
        MessageState::Cancelled,
    ];
    for (id, (state, executions)) in ids.into_iter().zip(states.into_iter().zip([1, 0, 1, 1, 1, 1]))
    {
        assert_eq!(f.state(id).await, Some(state));
        assert_eq!(f.history(id).await.len(), executions);
    }
}

pub async fn of_many_that_settle_with_one_token_exactly_one_succeeds(f: Fixture) {
    let id = f.enqueue(f.message()).await;
    let claimed = f.claim_one(at(0)).await;
    let nodes = f.nodes(4).await.into_iter().cycle().take(12).collect();
    let results = together(nodes, |node| {
        let claimed = claimed.clone();
        async move { node.settle(&claimed, again(&claimed, at(5)), at(1)).await }
    });
    let results = results.await;
    assert_eq!(results.iter().filter(|result| **result == SettleResult::Applied).count(), 1);
    assert_eq!(results.iter().filter(|result| **result == SettleResult::Lost).count(), 11);
    assert_eq!(f.history(id).await.len(), 1);
}

pub async fn a_settlement_and_a_takeover_at_once_never_both_succeed(f: Fixture) {
    let other = f.another_node().await;
    for _ in 0..20 {
        let id = f.enqueue(f.message()).await;
        let claimed = f.claim_one(at(0)).await;
        let (owner, rescuer) = (f.clone(), other.clone());
        let (settled, taken) = at_once(
            async move { owner.settle(&claimed, Verdict::Done, at(61)).await },
            async move { rescuer.reclaim(9, at(61)).await },
        )
        .await;
        match settled {
            SettleResult::Applied => {
                assert_eq!(taken, [], "a settled message cannot be taken over");
                assert_eq!(f.state(id).await, Some(MessageState::Done));
            }
            result => {
                assert_eq!((result, taken.len()), (SettleResult::Lost, 1));
                assert_eq!(f.settle(&taken[0], Verdict::Done, at(62)).await, SettleResult::Applied);
            }
        }
        assert_eq!(f.history(id).await.len(), 1);
    }
}
