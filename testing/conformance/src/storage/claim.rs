//! Claim: only due messages, in order, each by one owner.

use std::collections::BTreeSet;

use punctual::backend::policy::Verdict;
use punctual::backend::storage::{Claim, SettleResult, Settlement};
use punctual::model::{Message, MessageId, MessageState, Priority, Queue, Source};

use super::Fixture;
use super::fixture::{again, at, cancel_after, dead, ids_of, microsecond_after, queue, together};

behaviours! {
    only_pending_messages_that_are_due_are_claimed,
    messages_come_by_priority_then_due_time_then_id,
    at_most_the_limit_is_claimed_and_the_rest_stays,
    a_claim_counts_the_attempt_and_returns_a_lease_with_a_greater_token,
    nothing_is_claimed_early_when_the_clock_goes_back,
    no_message_is_claimed_by_two_owners,
    tokens_grow_across_nodes,
    messages_of_jobs_and_published_ones_share_one_order,
    a_dead_message_is_never_claimed_by_itself,
    queues_do_not_see_each_other,
    a_cancelled_claim_loses_nothing,
}

// spec: T-22, U-11
pub async fn only_pending_messages_that_are_due_are_claimed(f: Fixture) {
    let exactly = f.enqueue(f.due(at(10))).await;
    let later = f.enqueue(f.due(microsecond_after(at(10)))).await;
    assert_eq!(f.claim(f.process(), 10, at(9)).await, []);
    assert_eq!(ids_of(&f.claim(f.process(), 10, at(10)).await), [exactly]);
    assert_eq!(f.claim(f.process(), 10, at(10)).await, [], "a running message is not claimed");
    assert_eq!(ids_of(&f.claim(f.process(), 10, at(11)).await), [later]);
}

// spec: T-22, U-11
pub async fn messages_come_by_priority_then_due_time_then_id(f: Fixture) {
    let urgent = Priority::HIGHEST;
    let normal_late = f.enqueue(f.due(at(-1))).await;
    let normal_early = f.enqueue(f.due(at(-2))).await;
    let normal_late_newer = f.enqueue(f.due(at(-1))).await;
    let urgent_late = f.enqueue(Message { priority: urgent, ..f.due(at(0)) }).await;
    f.enqueue(Message { priority: urgent, ..f.due(at(1)) }).await;
    let least = f.enqueue(Message { priority: Priority::LOWEST, ..f.due(at(-9)) }).await;
    let order = [urgent_late, normal_early, normal_late, normal_late_newer, least];
    assert_eq!(ids_of(&f.claim(f.process(), 10, at(0)).await), order);
}

// spec: U-11
pub async fn at_most_the_limit_is_claimed_and_the_rest_stays(f: Fixture) {
    let ids = f.enqueue_many(5).await;
    assert_eq!(f.claim(f.process(), 0, at(0)).await, []);
    assert_eq!(ids_of(&f.claim(f.process(), 2, at(0)).await), ids[..2]);
    assert_eq!(ids_of(&f.claim(f.process(), 9, at(0)).await), ids[2..]);
}

pub async fn a_claim_counts_the_attempt_and_returns_a_lease_with_a_greater_token(f: Fixture) {
    let id = f.enqueue(f.message()).await;
    f.enqueue(f.message()).await;
    let owner = f.process();
    let claimed = f.claim(owner, 2, at(0)).await;
    assert_eq!(claimed[0].attempt, 1);
    assert_eq!((claimed[0].lease.owner, claimed[0].lease.until), (owner, at(60)));
    assert!(claimed[1].lease.token > claimed[0].lease.token);
    let record = f.record(id).await;
    assert_eq!((record.state, record.lease), (MessageState::Running, Some(claimed[0].lease)));

    f.settle(&claimed[0], again(&claimed[0], at(5)), at(1)).await;
    let second = f.claim_one(at(5)).await;
    assert_eq!((second.message.id, second.attempt), (id, 2));
    assert!(second.lease.token > claimed[1].lease.token);
}

pub async fn nothing_is_claimed_early_when_the_clock_goes_back(f: Fixture) {
    let early = f.enqueue(f.due(at(10))).await;
    let late = f.enqueue(f.due(at(20))).await;
    assert_eq!(ids_of(&f.claim(f.process(), 1, at(30)).await), [early]);
    assert_eq!(
        f.claim(f.process(), 9, at(15)).await,
        [],
        "it was due before the clock went back, but is not now"
    );
    assert_eq!(ids_of(&f.claim(f.process(), 9, at(20)).await), [late]);
}

// spec: H-60, H-64, U-10, T-23
pub async fn no_message_is_claimed_by_two_owners(f: Fixture) {
    let ids = f.enqueue_many(1_000).await;
    let nodes = f.nodes(4).await.into_iter().cycle().take(8).collect();
    let (mut seen, mut tokens) = (BTreeSet::new(), BTreeSet::new());
    for mine in together(nodes, |node| async move { claim_until_empty(&node).await }).await {
        assert!(mine.is_sorted_by_key(|(_, token)| *token), "each sees greater tokens only");
        for (id, token) in mine {
            assert!(seen.insert(id), "{id} was claimed by two owners");
            assert!(tokens.insert(token), "the token {token} was issued twice");
        }
    }
    assert_eq!(seen, ids.into_iter().collect());
}

async fn claim_until_empty(f: &Fixture) -> Vec<(MessageId, u64)> {
    let owner = f.process();
    let mut mine = Vec::new();
    loop {
        let claimed = f.claim(owner, 7, at(0)).await;
        if claimed.is_empty() {
            return mine;
        }
        let settlements =
            claimed.iter().map(|one| Settlement::new(one.lease_ref(), Verdict::Done, None));
        let settled = f.storage.settle(settlements.collect(), at(0)).await.unwrap();
        assert_eq!(settled, vec![SettleResult::Applied; claimed.len()]);
        mine.extend(claimed.iter().map(|one| (one.message.id, one.lease.token)));
    }
}

pub async fn tokens_grow_across_nodes(f: Fixture) {
    let nodes = f.nodes(3).await;
    f.enqueue_many(12).await;
    let mut last = 0;
    for node in nodes.iter().cycle().take(6) {
        for one in node.claim(node.process(), 2, at(0)).await {
            assert!(one.lease.token > last, "{} after {last}", one.lease.token);
            last = one.lease.token;
        }
    }
    let taken = nodes[1].reclaim(1, at(61)).await.remove(0);
    assert!(taken.lease.token > last, "a takeover too");
}

pub async fn messages_of_jobs_and_published_ones_share_one_order(f: Fixture) {
    let mut expected = Vec::new();
    for second in 0..10 {
        let due_at = at(second - 20);
        expected.push(f.enqueue(Message { due_at, ..f.run_of("report", due_at) }).await);
        expected.push(f.enqueue(f.due(due_at)).await);
        let source = Source::Deferred;
        expected.push(f.enqueue(Message { source, ..f.due(due_at) }).await);
    }
    let mut claimed = Vec::new();
    for _ in 0..6 {
        claimed.extend(ids_of(&f.claim(f.process(), 5, at(0)).await));
    }
    assert_eq!(claimed, expected);
}

// spec: T-33, T-34
pub async fn a_dead_message_is_never_claimed_by_itself(f: Fixture) {
    let id = f.finish(f.message(), dead(), at(0)).await;
    assert_eq!(f.claim(f.process(), 10, at(1_000_000)).await, []);
    assert_eq!(f.reclaim(10, at(1_000_000)).await, []);
    assert_eq!(f.state(id).await, Some(MessageState::Dead));
}

pub async fn queues_do_not_see_each_other(f: Fixture) {
    let slow = f.enqueue(Message { queue: queue("slow"), ..f.message() }).await;
    assert_eq!(f.claim(f.process(), 10, at(0)).await, []);
    let claim = Claim::new(queue("slow"), f.process(), 9, at(60));
    assert_eq!(ids_of(&f.storage.claim(claim, at(0)).await.unwrap()), [slow]);
    let unknown = Claim::new(queue("unknown"), f.process(), 9, at(60));
    assert_eq!(f.storage.claim(unknown, at(0)).await.unwrap(), []);
}

// spec: U-9
pub async fn a_cancelled_claim_loses_nothing(f: Fixture) {
    let ids: BTreeSet<MessageId> = f.enqueue_many(40).await.into_iter().collect();
    let mut seen = BTreeSet::new();
    for timeout in 0..10 {
        let (queue, owner) = (Queue::default(), f.process());
        let claim = Claim::new(queue, owner, 2, at(60));
        if let Some(claimed) = cancel_after(timeout, f.storage.claim(claim, at(0))).await {
            seen.extend(ids_of(&claimed.unwrap()));
        }
    }
    // Messages that no call claimed are still pending; those of a cancelled call are found by their leases. The
    // server may still be running that call, so this polls more than once.
    for _ in 0..1_000 {
        seen.extend(ids_of(&f.claim(f.process(), 99, at(61)).await));
        seen.extend(ids_of(&f.reclaim(99, at(61)).await));
        if seen.len() == ids.len() {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(seen, ids);
}
