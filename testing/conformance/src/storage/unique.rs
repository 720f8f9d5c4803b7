//! Uniqueness of deduplication keys: while pending, while alive, or for a duration.

use std::sync::Arc;

use punctual::backend::policy::Verdict;
use punctual::backend::storage::{Command, CommandResult, EnqueueResult, Entry};
use punctual::model::{Message, Relations, Unique};

use super::Fixture;
use super::fixture::{again, at, dead, seconds};

behaviours! {
    unique_while_pending_ends_with_the_first_claim_of_the_message,
    unique_while_pending_does_not_begin_again_with_a_retry,
    unique_for_a_time_outlives_the_message_and_ends_on_time,
    unique_for_a_time_lasts_at_least_as_long_as_the_message,
    unique_for_a_time_is_the_same_on_all_nodes_and_after_a_restart,
    a_pending_one_is_replaced_whatever_its_uniqueness,
    a_redrive_respects_the_same_keys_as_before,
}

fn unique(f: &Fixture, unique: Unique) -> Message {
    let relations = Some(Arc::new(Relations { unique, ..Relations::default() }));
    Message { relations, ..f.deduplicated("order 7") }
}

async fn try_enqueue_at(f: &Fixture, message: Message, second: i64) -> EnqueueResult {
    f.storage.enqueue(vec![Entry::from(message)], at(second)).await.unwrap()[0]
}

pub async fn unique_while_pending_ends_with_the_first_claim_of_the_message(f: Fixture) {
    let first = f.enqueue(unique(&f, Unique::WhilePending)).await;
    assert_eq!(
        f.try_enqueue(unique(&f, Unique::WhilePending)).await,
        EnqueueResult::Duplicate(first)
    );
    f.claim_one(at(1)).await;
    let second = f.enqueue(unique(&f, Unique::WhilePending)).await;
    assert_eq!(
        f.try_enqueue(unique(&f, Unique::WhilePending)).await,
        EnqueueResult::Duplicate(second)
    );
}

pub async fn unique_while_pending_does_not_begin_again_with_a_retry(f: Fixture) {
    f.enqueue(unique(&f, Unique::WhilePending)).await;
    let claimed = f.claim_one(at(1)).await;
    let second = f.enqueue(unique(&f, Unique::WhilePending)).await;
    f.settle(&claimed, again(&claimed, at(1)), at(1)).await;
    assert_eq!(
        f.try_enqueue(unique(&f, Unique::WhilePending)).await,
        EnqueueResult::Duplicate(second)
    );
    assert_eq!(f.claim(f.process(), 9, at(2)).await.len(), 2);
}

pub async fn unique_for_a_time_outlives_the_message_and_ends_on_time(f: Fixture) {
    let for_a_minute = || unique(&f, Unique::For(seconds(60)));
    let first = f.finish(for_a_minute(), Verdict::Done, at(1)).await;
    assert_eq!(try_enqueue_at(&f, for_a_minute(), 59).await, EnqueueResult::Duplicate(first));
    assert_eq!(try_enqueue_at(&f, for_a_minute(), 60).await, EnqueueResult::Stored);
}

pub async fn unique_for_a_time_lasts_at_least_as_long_as_the_message(f: Fixture) {
    let for_a_minute = || unique(&f, Unique::For(seconds(60)));
    let first = f.enqueue(for_a_minute()).await;
    assert_eq!(try_enqueue_at(&f, for_a_minute(), 61).await, EnqueueResult::Duplicate(first));
    assert_eq!(f.command(Command::Cancel(first)).await, CommandResult::Applied(1));
    assert_eq!(try_enqueue_at(&f, for_a_minute(), 61).await, EnqueueResult::Stored);
}

pub async fn unique_for_a_time_is_the_same_on_all_nodes_and_after_a_restart(f: Fixture) {
    let for_a_minute = |f: &Fixture| unique(f, Unique::For(seconds(60)));
    let first = f.finish(for_a_minute(&f), Verdict::Done, at(1)).await;
    let node = f.another_node().await;
    assert_eq!(try_enqueue_at(&node, for_a_minute(&f), 2).await, EnqueueResult::Duplicate(first));
    drop(node);
    let f = f.reopen().await;
    assert_eq!(try_enqueue_at(&f, for_a_minute(&f), 3).await, EnqueueResult::Duplicate(first));
    assert_eq!(try_enqueue_at(&f, for_a_minute(&f), 60).await, EnqueueResult::Stored);
}

pub async fn a_pending_one_is_replaced_whatever_its_uniqueness(f: Fixture) {
    for how in [Unique::WhileAlive, Unique::WhilePending, Unique::For(seconds(60))] {
        let first = f.try_enqueue(unique(&f, how)).await;
        assert_eq!(first, EnqueueResult::Stored, "{how:?}");
        let (second, third) = (unique(&f, how), unique(&f, how));
        let (id, last) = (second.id, third.id);
        assert!(matches!(f.try_replace(second).await, EnqueueResult::Replaced(_)), "{how:?}");
        assert_eq!(f.try_replace(third).await, EnqueueResult::Replaced(id), "{how:?}");
        assert_eq!(f.command(Command::Delete(last)).await, CommandResult::Applied(1));
    }
    let kept_out = f.try_enqueue(unique(&f, Unique::WhileAlive)).await;
    assert!(
        matches!(kept_out, EnqueueResult::Duplicate(_)),
        "the minute of the last message is not over"
    );
}

pub async fn a_redrive_respects_the_same_keys_as_before(f: Fixture) {
    let how = Unique::For(seconds(60));
    let first = f.finish(unique(&f, how), dead(), at(1)).await;
    let redrive = Command::Redrive { id: first, due_at: at(2) };
    assert_eq!(
        f.command(redrive).await,
        CommandResult::Applied(1),
        "its own key does not block it"
    );
    assert_eq!(f.try_enqueue(unique(&f, how)).await, EnqueueResult::Duplicate(first));
}
