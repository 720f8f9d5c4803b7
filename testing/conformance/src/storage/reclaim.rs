//! Reclaim and heartbeat: which work may be taken over, and from which instant on.

use std::collections::BTreeSet;
use std::sync::Arc;

use punctual::Message;
use punctual::backend::policy::{AgainReason, Verdict};
use punctual::backend::storage::{Claim, Command, Prune, SettleResult};
use punctual::model::{DeadReason, HandlerOptions, MessageState, Queue, WhenInterrupted};

use super::Fixture;
use super::fixture::{at, ids_of, microsecond_after, together};

behaviours! {
    a_lease_is_taken_over_strictly_after_its_end,
    a_reclaimed_message_has_a_fresh_lease_and_spends_no_attempt,
    a_rescued_message_is_pending_due_now_and_without_an_owner,
    a_message_that_is_lost_when_interrupted_keeps_that_option_and_can_be_redriven,
    at_most_the_limit_is_taken_over_oldest_end_first_then_by_id,
    work_of_a_process_whose_heartbeat_has_expired_can_be_taken_over_at_once,
    the_next_expiry_is_the_earliest_end_of_a_lease_or_of_its_owners_heartbeat,
    what_may_be_taken_over_is_counted_as_stale,
    a_process_without_a_heartbeat_depends_on_its_lease_alone,
    a_process_that_deregisters_frees_its_work_at_once,
    a_late_heartbeat_does_not_shorten_a_newer_one,
    of_many_rescuers_at_once_each_message_is_taken_over_by_one,
    a_takeover_keeps_the_counts_of_the_message,
    a_process_that_resumes_its_heartbeat_keeps_what_was_not_taken_over,
    an_expired_heartbeat_is_kept_while_its_process_holds_work,
    a_deregistration_is_visible_to_every_node,
}

// spec: H-4, H-6, T-25
pub async fn a_lease_is_taken_over_strictly_after_its_end(f: Fixture) {
    let id = f.enqueue(f.message()).await;
    f.claim_one(at(0)).await;
    let fresh = f.enqueue(f.message()).await;
    f.claim_one(at(30)).await;
    let pending = f.enqueue(f.message()).await;
    assert_eq!(f.reclaim(9, at(60)).await, [], "exactly at its end it still holds");
    assert_eq!(ids_of(&f.reclaim(9, microsecond_after(at(60))).await), [id]);
    assert_eq!(f.state(fresh).await, Some(MessageState::Running));
    assert_eq!(f.state(pending).await, Some(MessageState::Pending));
}

// spec: H-3
pub async fn a_reclaimed_message_has_a_fresh_lease_and_spends_no_attempt(f: Fixture) {
    let id = f.enqueue(f.message()).await;
    let lost = f.claim_one(at(0)).await;
    let taken = f.reclaim(9, at(61)).await;
    assert_eq!(taken.len(), 1, "only messages that were taken over are returned");
    assert_eq!((taken[0].message.id, taken[0].attempt), (id, lost.attempt));
    assert!(taken[0].lease.token > lost.lease.token);
    assert_eq!(taken[0].lease.until, at(121));
    assert_eq!(f.reclaim(9, at(61)).await, [], "its new owner has it now");
    assert_eq!(f.settle(&lost, Verdict::Done, at(62)).await, SettleResult::Lost);
}

// spec: H-5, H-7
pub async fn a_rescued_message_is_pending_due_now_and_without_an_owner(f: Fixture) {
    let messages = [f.message(), f.run_of("report", at(0))];
    for message in messages {
        let id = f.enqueue(message).await;
        f.claim_one(at(0)).await;
        let taken = f.reclaim(9, at(61)).await.remove(0);
        let verdict = Verdict::Again {
            due_at: at(61),
            attempt: taken.attempt - 1,
            crashes: taken.crashes + 1,
            snoozes: taken.snoozes,
            error: None,
            why: AgainReason::Rescue,
        };
        assert_eq!(f.settle(&taken, verdict, at(61)).await, SettleResult::Applied);
        let record = f.record(id).await;
        assert_eq!((record.state, record.lease), (MessageState::Pending, None));
        assert_eq!((record.due_at, record.attempt, record.crashes), (at(61), 0, 1));
        f.command(Command::Delete(id)).await;
    }
}

// Finding P9 of the newcomer's review: the handler options stored with the message decide.
pub async fn a_message_that_is_lost_when_interrupted_keeps_that_option_and_can_be_redriven(
    f: Fixture,
) {
    let handler_options = HandlerOptions::new().when_interrupted(WhenInterrupted::Lost);
    let message = Message { handler_options: Some(Arc::new(handler_options)), ..f.message() };
    let id = f.enqueue(message).await;
    f.claim_one(at(0)).await;
    let taken = f.reclaim(9, at(61)).await.remove(0);
    let when_interrupted = taken
        .message
        .handler_options
        .as_ref()
        .and_then(|handler_options| handler_options.when_interrupted);
    assert_eq!(when_interrupted, Some(WhenInterrupted::Lost));
    let reason = DeadReason::Interrupted;
    let verdict = Verdict::Dead { reason, error: Some(Arc::from("the process ended")) };
    assert_eq!(f.settle(&taken, verdict, at(61)).await, SettleResult::Applied);
    let record = f.record(id).await;
    assert_eq!((record.state, record.dead), (MessageState::Dead, Some(reason)));
    f.command(Command::Redrive { id, due_at: at(62) }).await;
    assert_eq!(f.state(id).await, Some(MessageState::Pending));
}

pub async fn at_most_the_limit_is_taken_over_oldest_end_first_then_by_id(f: Fixture) {
    let mut ids = Vec::new();
    for until in [50, 40, 40] {
        let id = f.enqueue(f.message()).await;
        let claim = Claim::new(Queue::default(), f.process(), 1, at(until));
        f.storage.claim(claim, at(0)).await.unwrap();
        ids.push(id);
    }
    assert_eq!(f.reclaim(0, at(100)).await, []);
    assert_eq!(ids_of(&f.reclaim(2, at(100)).await), [ids[1], ids[2]]);
    assert_eq!(ids_of(&f.reclaim(2, at(100)).await), [ids[0]]);
}

pub async fn work_of_a_process_whose_heartbeat_has_expired_can_be_taken_over_at_once(f: Fixture) {
    let (silent, alive) = (f.process(), f.process());
    f.storage.heartbeat(silent, at(10), at(0)).await.unwrap();
    f.storage.heartbeat(alive, at(10), at(0)).await.unwrap();
    let ids = f.enqueue_many(2).await;
    f.claim(silent, 1, at(0)).await;
    f.claim(alive, 1, at(0)).await;
    f.storage.heartbeat(alive, at(40), at(10)).await.unwrap();
    assert_eq!(f.reclaim(9, at(10)).await, [], "a heartbeat holds until its end");
    assert_eq!(ids_of(&f.reclaim(9, microsecond_after(at(10))).await), ids[..1]);
    assert_eq!(f.reclaim(9, at(40)).await, []);
}

pub async fn the_next_expiry_is_the_earliest_end_of_a_lease_or_of_its_owners_heartbeat(f: Fixture) {
    let next = || async { f.storage.next_expiry().await.unwrap() };
    let (first, second) = (f.process(), f.process());
    f.storage.heartbeat(first, at(10), at(0)).await.unwrap();
    f.enqueue_many(2).await;
    assert_eq!(next().await, None, "a process without claimed messages has no expiry");
    f.claim(second, 1, at(0)).await;
    assert_eq!(next().await, Some(at(60)), "an owner without a heartbeat has its lease");
    let claimed = f.claim(first, 1, at(0)).await.remove(0);
    assert_eq!(next().await, Some(at(10)));
    f.storage.heartbeat(first, at(40), at(10)).await.unwrap();
    assert_eq!(next().await, Some(at(40)));
    assert_eq!(f.reclaim(9, at(40)).await, [], "nothing until then");
    assert_eq!(f.settle(&claimed, Verdict::Done, at(40)).await, SettleResult::Applied);
    assert_eq!(next().await, Some(at(60)));
}

// spec: H-48
pub async fn what_may_be_taken_over_is_counted_as_stale(f: Fixture) {
    let owner = f.process();
    f.storage.heartbeat(owner, at(10), at(0)).await.unwrap();
    f.enqueue_many(3).await;
    f.claim(owner, 2, at(0)).await;
    let stale = |now| {
        let inspect = f.inspect.clone();
        async move {
            let estimate = inspect.estimate(now).await.unwrap();
            (inspect.counts(now).await.unwrap().stale, estimate.stale)
        }
    };
    assert_eq!(stale(at(10)).await, (0, 0), "a heartbeat holds until its end");
    assert_eq!(stale(microsecond_after(at(10))).await, (2, 2));
    assert_eq!(f.reclaim(9, microsecond_after(at(10))).await.len(), 2);
    assert_eq!(stale(at(11)).await, (0, 0));
}

pub async fn a_process_without_a_heartbeat_depends_on_its_lease_alone(f: Fixture) {
    f.enqueue(f.message()).await;
    f.claim_one(at(0)).await;
    assert_eq!(f.reclaim(9, at(60)).await, []);
    assert_eq!(f.reclaim(9, at(61)).await.len(), 1);
}

pub async fn a_process_that_deregisters_frees_its_work_at_once(f: Fixture) {
    let owner = f.process();
    f.storage.heartbeat(owner, at(30), at(0)).await.unwrap();
    f.enqueue(f.message()).await;
    f.claim(owner, 1, at(0)).await;
    f.storage.heartbeat(owner, at(-1), at(0)).await.unwrap();
    assert_eq!(f.reclaim(9, at(0)).await.len(), 1);
}

/// Found by the simulation: a heartbeat that arrived after a newer one made its process look dead, so that
/// everything it claimed was taken over at once, again and again.
pub async fn a_late_heartbeat_does_not_shorten_a_newer_one(f: Fixture) {
    let owner = f.process();
    f.storage.heartbeat(owner, at(40), at(10)).await.unwrap();
    f.storage.heartbeat(owner, at(30), at(0)).await.unwrap();
    f.enqueue(f.message()).await;
    f.claim(owner, 1, at(11)).await;
    assert_eq!(f.reclaim(9, at(35)).await, []);
    assert_eq!(f.reclaim(9, at(41)).await.len(), 1);
}

// spec: H-3
pub async fn of_many_rescuers_at_once_each_message_is_taken_over_by_one(f: Fixture) {
    let ids = f.enqueue_many(120).await;
    f.claim(f.process(), 120, at(0)).await;
    let nodes = f.nodes(4).await.into_iter().cycle().take(8).collect();
    let taken = together(nodes, |node| async move {
        let mut taken = Vec::new();
        loop {
            let some = node.reclaim(7, at(61)).await;
            if some.is_empty() {
                return taken;
            }
            taken.extend(some);
        }
    });
    let taken = taken.await.concat();
    let tokens: BTreeSet<u64> = taken.iter().map(|one| one.lease.token).collect();
    let mut taken = ids_of(&taken);
    taken.sort_unstable();
    assert_eq!((taken, tokens.len()), (ids, 120));
}

pub async fn a_takeover_keeps_the_counts_of_the_message(f: Fixture) {
    f.enqueue(f.message()).await;
    let claimed = f.claim_one(at(0)).await;
    let verdict = Verdict::Again {
        due_at: at(5),
        attempt: 3,
        crashes: 2,
        snoozes: 4,
        error: None,
        why: AgainReason::Snooze,
    };
    f.settle(&claimed, verdict, at(1)).await;
    f.claim_one(at(5)).await;
    let taken = f.another_node().await.reclaim(9, at(66)).await.remove(0);
    assert_eq!((taken.attempt, taken.crashes, taken.snoozes), (4, 2, 4));
    assert_eq!((taken.due_at, taken.message), (at(5), claimed.message));
}

pub async fn a_process_that_resumes_its_heartbeat_keeps_what_was_not_taken_over(f: Fixture) {
    let owner = f.process();
    f.storage.heartbeat(owner, at(10), at(0)).await.unwrap();
    f.enqueue(f.message()).await;
    f.claim(owner, 1, at(0)).await;
    // Its heartbeat had expired, but no process had taken anything over.
    f.storage.heartbeat(owner, at(50), at(20)).await.unwrap();
    assert_eq!(f.reclaim(9, at(30)).await, []);
    assert_eq!(f.reclaim(9, at(51)).await.len(), 1);
}

pub async fn an_expired_heartbeat_is_kept_while_its_process_holds_work(f: Fixture) {
    let owner = f.process();
    f.storage.heartbeat(owner, at(10), at(0)).await.unwrap();
    f.enqueue(f.message()).await;
    let until = at(9_000);
    let claim = Claim::new(Queue::default(), owner, 1, until);
    f.storage.claim(claim, at(0)).await.unwrap();
    f.storage.prune(Prune { before: at(500), limit: 9, dead: true }, at(1_000)).await.unwrap();
    assert_eq!(
        f.reclaim(9, at(1_000)).await.len(),
        1,
        "its lease has not ended, its heartbeat has"
    );
}

pub async fn a_deregistration_is_visible_to_every_node(f: Fixture) {
    let other = f.another_node().await;
    let owner = f.process();
    other.storage.heartbeat(owner, at(30), at(0)).await.unwrap();
    let id = f.enqueue(f.message()).await;
    f.claim(owner, 1, at(0)).await;
    assert_eq!(other.reclaim(9, at(1)).await, []);
    f.storage.heartbeat(owner, at(0), at(1)).await.unwrap();
    assert_eq!(ids_of(&other.reclaim(9, at(1)).await), [id]);
}
