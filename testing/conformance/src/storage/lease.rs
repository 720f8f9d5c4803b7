//! Leases: only the current token renews a lease.

use punctual::backend::policy::Verdict;
use punctual::backend::storage::{ClaimedMessage, Command, ExtendResult, SettleResult, Settlement};
use punctual::model::{LeaseRef, MessageState};

use super::Fixture;
use super::fixture::{again, at, at_once, dead};

behaviours! {
    the_current_token_renews_a_lease,
    an_expired_lease_that_was_not_taken_over_can_be_renewed,
    a_lost_lease_cannot_be_renewed,
    renewing_reports_a_requested_cancel,
    what_is_settled_while_its_lease_is_renewed_is_settled,
}

pub async fn the_current_token_renews_a_lease(f: Fixture) {
    let id = f.enqueue(f.message()).await;
    let claimed = f.claim_one(at(0)).await;
    let results = f.storage.extend(&[claimed.lease_ref()], at(300), at(20)).await.unwrap();
    assert_eq!(results, [ExtendResult::Held]);
    let lease = f.record(id).await.lease.unwrap();
    assert_eq!((lease.until, lease.token), (at(300), claimed.lease.token));
    assert_eq!(f.reclaim(10, at(61)).await, [], "its first end has passed, the new one has not");
    assert_eq!(f.reclaim(10, at(301)).await.len(), 1);
}

pub async fn an_expired_lease_that_was_not_taken_over_can_be_renewed(f: Fixture) {
    f.enqueue(f.message()).await;
    let claimed = f.claim_one(at(0)).await;
    let results = f.storage.extend(&[claimed.lease_ref()], at(300), at(100)).await.unwrap();
    assert_eq!(results, [ExtendResult::Held]);
}

pub async fn a_lost_lease_cannot_be_renewed(f: Fixture) {
    f.enqueue(f.message()).await;
    let first = f.claim_one(at(0)).await;
    let second = f.reclaim(1, at(61)).await.remove(0);
    let unknown = LeaseRef { message: f.message().id, token: 1 };
    let asked = [first.lease_ref(), second.lease_ref(), unknown];
    let results = f.storage.extend(&asked, at(500), at(62)).await.unwrap();
    assert_eq!(results, [ExtendResult::Lost, ExtendResult::Held, ExtendResult::Lost]);

    f.settle(&second, Verdict::Done, at(63)).await;
    let results = f.storage.extend(&[second.lease_ref()], at(600), at(64)).await.unwrap();
    assert_eq!(results, [ExtendResult::Lost]);
}

pub async fn renewing_reports_a_requested_cancel(f: Fixture) {
    let id = f.enqueue(f.message()).await;
    let claimed = f.claim_one(at(0)).await;
    f.command(Command::Cancel(id)).await;
    let results = f.storage.extend(&[claimed.lease_ref()], at(300), at(20)).await.unwrap();
    assert_eq!(results, [ExtendResult::CancelRequested]);
    assert_eq!(f.record(id).await.lease.unwrap().until, at(300), "renewed all the same");
}

pub async fn what_is_settled_while_its_lease_is_renewed_is_settled(f: Fixture) {
    for round in 0..4 {
        f.enqueue_many(30).await;
        let claimed = f.claim(f.process(), 30, at(round)).await;
        let leases: Vec<LeaseRef> = claimed.iter().map(ClaimedMessage::lease_ref).collect();
        let settlements = claimed.iter().enumerate().map(|(index, one)| {
            let verdict = match index % 3 {
                0 => again(one, at(1_000)),
                1 => Verdict::Done,
                _ => dead(),
            };
            Settlement::new(one.lease_ref(), verdict, None)
        });
        let settlements: Vec<Settlement> = settlements.collect();
        let (keeper, settler) = (f.another_node().await, f.storage.clone());
        let keep = async move { keeper.storage.extend(&leases, at(300), at(round)).await.unwrap() };
        let settle = async move { settler.settle(settlements, at(round)).await.unwrap() };
        let (_, settled) = at_once(keep, settle).await;
        assert_eq!(settled, [SettleResult::Applied; 30]);
        for (index, one) in claimed.iter().enumerate() {
            let expected =
                [MessageState::Pending, MessageState::Done, MessageState::Dead][index % 3];
            assert_eq!(
                f.state(one.message.id).await,
                Some(expected),
                "the settlement was reported as applied"
            );
        }
    }
}
