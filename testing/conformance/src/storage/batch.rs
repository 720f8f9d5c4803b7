//! Batches: all or nothing, in the given order, of any size.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use punctual::backend::storage::{ClaimedMessage, EnqueueResult, Entry};
use punctual::inspect::{MessageFilter, PageRequest};
use punctual::model::{Message, MessageId, MessageState};

use super::Fixture;
use super::fixture::{at, at_once, cancel_after, ids_of, key};

behaviours! {
    an_empty_batch_is_no_error,
    duplicates_inside_one_batch_are_reported_one_by_one,
    a_replacement_inside_one_batch_replaces_what_came_before_it,
    a_large_batch_is_stored_in_one_call_around_a_duplicate_in_its_middle,
    a_batch_is_seen_as_a_whole_or_not_at_all,
    batches_with_the_same_keys_in_opposite_orders_do_not_deadlock,
    a_cancelled_enqueue_stores_its_batch_as_a_whole_or_not_at_all,
}

pub async fn an_empty_batch_is_no_error(f: Fixture) {
    assert_eq!(f.storage.enqueue(Vec::new(), at(0)).await.unwrap(), []);
    assert_eq!(f.storage.extend(&[], at(60), at(0)).await.unwrap(), []);
    assert_eq!(f.storage.settle(Vec::new(), at(0)).await.unwrap(), []);
    assert_eq!(f.storage.fire(Vec::new(), at(0)).await.unwrap(), []);
    f.storage.record(Vec::new(), at(0)).await.unwrap();
}

pub async fn duplicates_inside_one_batch_are_reported_one_by_one(f: Fixture) {
    let (twice, first, second) = (f.message(), f.deduplicated("a"), f.deduplicated("a"));
    let (id, keyed) = (twice.id, first.id);
    let batch = [twice.clone(), first, twice, second].map(Entry::from);
    let results = f.storage.enqueue(batch.into(), at(0)).await.unwrap();
    let expected = [
        EnqueueResult::Stored,
        EnqueueResult::Stored,
        EnqueueResult::Duplicate(id),
        EnqueueResult::Duplicate(keyed),
    ];
    assert_eq!(results, expected);
    assert_eq!(f.claim(f.process(), 10, at(0)).await.len(), 2);
}

pub async fn a_replacement_inside_one_batch_replaces_what_came_before_it(f: Fixture) {
    let (first, second) = (f.deduplicated("a"), f.deduplicated("a"));
    let (first_id, second_id) = (first.id, second.id);
    let second = Entry { message: Arc::new(second), replace: true };
    let batch = vec![Entry::from(first), second];
    let results = f.storage.enqueue(batch, at(0)).await.unwrap();
    assert_eq!(results, [EnqueueResult::Stored, EnqueueResult::Replaced(first_id)]);
    assert_eq!(ids_of(&f.claim(f.process(), 10, at(0)).await), [second_id]);
}

pub async fn a_large_batch_is_stored_in_one_call_around_a_duplicate_in_its_middle(f: Fixture) {
    const COUNT: usize = 2_000;
    let known = f.enqueue(f.deduplicated("known")).await;
    let mut messages: Vec<Message> = (0..COUNT).map(|_| f.message()).collect();
    messages[COUNT / 2].dedupe = Some(key("known"));
    let ids: Vec<MessageId> = messages.iter().map(|message| message.id).collect();
    let batch = messages.into_iter().map(Entry::from).collect();
    let results = f.storage.enqueue(batch, at(0)).await.unwrap();
    let mut expected = vec![EnqueueResult::Stored; COUNT];
    expected[COUNT / 2] = EnqueueResult::Duplicate(known);
    assert_eq!(results, expected);
    assert_eq!(f.state(ids[COUNT / 2]).await, None);
    let counts = f.inspect.counts(at(0)).await.unwrap();
    assert_eq!(counts.total(MessageState::Pending), COUNT as u64);

    let claimed = f.claim(f.process(), COUNT + 1, at(0)).await;
    let others = ids.iter().enumerate().filter(|(index, _)| *index != COUNT / 2);
    let others = others.map(|(_, id)| *id);
    assert_eq!(ids_of(&claimed), std::iter::once(known).chain(others).collect::<Vec<_>>());
    let leases: Vec<_> = claimed.iter().map(ClaimedMessage::lease_ref).collect();
    let extended = f.storage.extend(&leases, at(300), at(1)).await.unwrap();
    assert_eq!(extended.len(), COUNT);
}

/// Another node counts messages while batches are stored, and never sees part of one.
pub async fn a_batch_is_seen_as_a_whole_or_not_at_all(f: Fixture) {
    const BATCH: usize = 50;
    let (writer, reader) = (f.clone(), f.another_node().await);
    let done = Arc::new(AtomicBool::new(false));
    let written = Arc::clone(&done);
    let write = async move {
        for _ in 0..20 {
            writer.enqueue_many(BATCH).await;
        }
        written.store(true, Ordering::Release);
    };
    let read = async move {
        let mut seen = BTreeSet::new();
        while !done.load(Ordering::Acquire) {
            seen.insert(reader.inspect.counts(at(0)).await.unwrap().total(MessageState::Pending));
            tokio::task::yield_now().await;
        }
        seen
    };
    let ((), seen) = at_once(write, read).await;
    for count in seen {
        assert_eq!(count % BATCH as u64, 0, "{count} messages were seen");
    }
}

/// Two batches that lock the same keys in different orders can deadlock, and the database aborts one of them.
/// The storage retries it, so that the caller sees no error.
pub async fn batches_with_the_same_keys_in_opposite_orders_do_not_deadlock(f: Fixture) {
    const KEYS: usize = 40;
    for round in 0..10 {
        let batch = |backwards: bool| -> Vec<Entry> {
            let message = |index| f.deduplicated(&format!("{round}/{index}"));
            let mut entries: Vec<Entry> = (0..KEYS).map(message).map(Entry::from).collect();
            if backwards {
                entries.reverse();
            }
            entries
        };
        let (one, two) = (f.clone(), f.another_node().await);
        let (forwards, backwards) = (batch(false), batch(true));
        let (one, two) = at_once(
            async move { one.storage.enqueue(forwards, at(0)).await.unwrap() },
            async move { two.storage.enqueue(backwards, at(0)).await.unwrap() },
        )
        .await;
        let stored = one.iter().chain(&two).filter(|result| **result == EnqueueResult::Stored);
        assert_eq!(stored.count(), KEYS, "one message for each key");
    }
    let page =
        f.inspect.messages(MessageFilter::default(), PageRequest::first(1_000)).await.unwrap();
    let keys: BTreeSet<_> = page.rows.iter().map(|row| row.message.dedupe.clone()).collect();
    assert_eq!((keys.len(), page.rows.len()), (KEYS * 10, KEYS * 10));
}

// spec: U-9
pub async fn a_cancelled_enqueue_stores_its_batch_as_a_whole_or_not_at_all(f: Fixture) {
    const BATCH: usize = 10;
    for timeout in 0..20 {
        let batch: Vec<Entry> = (0..BATCH).map(|_| Entry::from(f.message())).collect();
        let ids: Vec<MessageId> = batch.iter().map(|entry| entry.message.id).collect();
        cancel_after(timeout, f.storage.enqueue(batch.clone(), at(0))).await;
        // The caller does not know whether the cancelled call was committed, and may repeat it.
        let results = f.storage.enqueue(batch, at(0)).await.unwrap();
        let duplicates = ids.into_iter().map(EnqueueResult::Duplicate).collect::<Vec<_>>();
        assert!(
            results == vec![EnqueueResult::Stored; BATCH] || results == duplicates,
            "{results:?}"
        );
    }
    let counts = f.inspect.counts(at(0)).await.unwrap();
    assert_eq!(counts.total(MessageState::Pending), 20 * BATCH as u64);
}
