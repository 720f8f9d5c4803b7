//! Inbox: the deliveries that a group has handled, recorded once and forgotten after their retention.

use punctual::InboxResult;

use super::Fixture;
use super::fixture::{at, microsecond_after, together};

behaviours! {
    the_first_record_of_a_delivery_is_first_and_every_other_again,
    groups_and_messages_are_recorded_separately,
    of_many_records_at_once_one_is_first,
    what_is_older_than_an_instant_is_forgotten_and_nothing_else,
    forgetting_is_bounded,
    records_survive_a_restart_of_a_durable_storage,
}

pub async fn the_first_record_of_a_delivery_is_first_and_every_other_again(f: Fixture) {
    let id = f.message().id;
    assert!(!f.inbox.has_seen("billing", id).await.unwrap());
    assert_eq!(f.inbox.admit("billing", id, at(0)).await.unwrap(), InboxResult::First);
    assert!(f.inbox.has_seen("billing", id).await.unwrap());
    for second in [0, 1, 1_000_000] {
        assert_eq!(f.inbox.admit("billing", id, at(second)).await.unwrap(), InboxResult::Again);
    }
}

pub async fn groups_and_messages_are_recorded_separately(f: Fixture) {
    let (one, other) = (f.message().id, f.message().id);
    let long = "ż".repeat(200);
    for group in ["billing", "Billing", "billing ", "a'b\"c", &long] {
        assert!(!f.inbox.has_seen(group, one).await.unwrap(), "{group:?}");
        assert_eq!(
            f.inbox.admit(group, one, at(0)).await.unwrap(),
            InboxResult::First,
            "{group:?}"
        );
        assert!(!f.inbox.has_seen(group, other).await.unwrap());
    }
}

pub async fn of_many_records_at_once_one_is_first(f: Fixture) {
    let id = f.message().id;
    let nodes = f.nodes(4).await.into_iter().cycle().take(12).collect();
    let results =
        together(
            nodes,
            |node| async move { node.inbox.admit("billing", id, at(0)).await.unwrap() },
        )
        .await;
    let first = results.iter().filter(|result| **result == InboxResult::First).count();
    assert_eq!(first, 1);
}

pub async fn what_is_older_than_an_instant_is_forgotten_and_nothing_else(f: Fixture) {
    let (old, new) = (f.message().id, f.message().id);
    f.inbox.admit("billing", old, at(9)).await.map(|_| ()).unwrap();
    f.inbox.admit("billing", new, at(10)).await.map(|_| ()).unwrap();
    assert_eq!(f.inbox.forget(at(9), 100).await.unwrap(), 0, "exactly at the instant it is kept");
    assert_eq!(f.inbox.forget(microsecond_after(at(9)), 100).await.unwrap(), 1);
    assert!(!f.inbox.has_seen("billing", old).await.unwrap());
    assert!(f.inbox.has_seen("billing", new).await.unwrap());
    assert_eq!(f.inbox.admit("billing", old, at(11)).await.unwrap(), InboxResult::First);
}

pub async fn forgetting_is_bounded(f: Fixture) {
    for second in 0..5 {
        let id = f.message().id;
        f.inbox.admit("billing", id, at(second)).await.map(|_| ()).unwrap();
    }
    let mut forgotten = Vec::new();
    for _ in 0..4 {
        forgotten.push(f.inbox.forget(at(100), 2).await.unwrap());
    }
    assert_eq!(forgotten, [2, 2, 1, 0]);
}

pub async fn records_survive_a_restart_of_a_durable_storage(f: Fixture) {
    let id = f.message().id;
    f.inbox.admit("billing", id, at(0)).await.map(|_| ()).unwrap();
    if f.storage.is_durable() {
        let f = f.reopen().await;
        assert_eq!(f.inbox.admit("billing", id, at(1)).await.unwrap(), InboxResult::Again);
    } else {
        assert!(f.inbox.has_seen("billing", id).await.unwrap());
    }
}
