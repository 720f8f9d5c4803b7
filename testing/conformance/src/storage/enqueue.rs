//! Enqueue: safe to repeat, and one alive message for a deduplication key.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use punctual::backend::policy::Verdict;
use punctual::backend::storage::{
    Claim, Command, CommandResult, EnqueueResult, Entry, SettleResult,
};
use punctual::inspect::{MessageFilter, PageRequest};
use punctual::model::{Message, MessageId, MessageState, Queue, Route, Source, TransportName};

use super::Fixture;
use super::fixture::{at, dead, ids_of, key, together};

behaviours! {
    an_enqueued_message_is_pending_with_no_attempt_spent,
    a_repeated_call_reports_each_message_as_a_duplicate_of_itself,
    a_call_repeated_after_the_message_is_done_does_not_run_it_again,
    a_finished_message_that_comes_back_to_be_held_is_stored_again,
    a_held_message_keeps_its_route,
    a_second_message_with_an_alive_deduplication_key_is_a_duplicate,
    a_pending_message_is_replaced_on_request,
    a_running_message_is_not_replaced,
    many_replacements_at_once_leave_exactly_one_alive,
    deleting_an_old_message_does_not_free_the_key_of_a_newer_one,
    a_key_alone_deduplicates_nothing,
    a_redriven_message_is_stored_again_when_it_comes_back_changed,
    a_dead_letter_is_not_brought_back_by_a_late_copy,
    of_many_with_one_key_at_once_exactly_one_is_stored,
}

/// Returns a message as the storage holds it for a transport.
fn held(message: Message) -> Message {
    let transport = TransportName::new("post").unwrap();
    let queue = Queue::of_relay(&transport);
    Message { queue, route: Some(Arc::new(Route::new(transport))), ..message }
}

// spec: T-42
pub async fn an_enqueued_message_is_pending_with_no_attempt_spent(f: Fixture) {
    let id = f.enqueue(f.due(at(30))).await;
    let record = f.record(id).await;
    assert_eq!(record.state, MessageState::Pending);
    assert_eq!((record.attempt, record.crashes, record.snoozes), (0, 0, 0));
    assert_eq!((record.due_at, record.lease), (at(30), None));
}

pub async fn a_repeated_call_reports_each_message_as_a_duplicate_of_itself(f: Fixture) {
    let entries: Vec<Entry> = (0..3).map(|_| Entry::from(f.message())).collect();
    let first = f.storage.enqueue(entries.clone(), at(0)).await.unwrap();
    assert_eq!(first, [EnqueueResult::Stored; 3]);
    let again = f.storage.enqueue(entries.clone(), at(1)).await.unwrap();
    let duplicates: Vec<EnqueueResult> =
        entries.iter().map(|entry| EnqueueResult::Duplicate(entry.message.id)).collect();
    assert_eq!(again, duplicates);
    assert_eq!(f.claim(f.process(), 10, at(1)).await.len(), 3);
}

pub async fn a_call_repeated_after_the_message_is_done_does_not_run_it_again(f: Fixture) {
    let message = f.message();
    let id = f.finish(message.clone(), Verdict::Done, at(0)).await;
    assert_eq!(f.try_enqueue(message.clone()).await, EnqueueResult::Duplicate(id));
    // Found by the simulation: a call is repeated a moment later.
    let later = Message { due_at: at(9), created_at: at(9), ..message };
    assert_eq!(f.try_enqueue(later).await, EnqueueResult::Duplicate(id));
    assert_eq!(f.state(id).await, Some(MessageState::Done));
}

pub async fn a_finished_message_that_comes_back_to_be_held_is_stored_again(f: Fixture) {
    let message = f.message();
    let id = f.finish(message.clone(), Verdict::Done, at(0)).await;
    let held = Message { due_at: at(32), ..held(message) };
    assert_eq!(f.try_replace(held.clone()).await, EnqueueResult::Stored);
    let record = f.record(id).await;
    assert_eq!((record.state, record.due_at, record.attempt), (MessageState::Pending, at(32), 0));
    assert_eq!(f.try_replace(held).await, EnqueueResult::Duplicate(id));
    assert_eq!(f.inspect.counts(at(0)).await.unwrap().total(MessageState::Done), 0);
}

pub async fn a_held_message_keeps_its_route(f: Fixture) {
    let plain = held(f.message());
    let transport = plain.transport().unwrap().clone();
    let route = Route {
        group: Some(Arc::from("office")),
        attempt: 2,
        snoozes: 3,
        unhandled: Duration::from_secs(75),
        first_due_at: Some(at(1)),
        original_id: Some(f.message().id),
        ..Route::new(transport)
    };
    let returning = Message { route: Some(Arc::new(route)), ..held(f.message()) };
    for message in [plain, returning] {
        let id = f.enqueue(message.clone()).await;
        assert_eq!(f.record(id).await.message.route, message.route);
        let queue = message.queue.clone();
        let claim = Claim::new(queue, f.process(), 1, at(60));
        let claimed = f.storage.claim(claim, at(0)).await.unwrap();
        assert_eq!(claimed[0].message.route, message.route);
    }
}

pub async fn a_second_message_with_an_alive_deduplication_key_is_a_duplicate(f: Fixture) {
    let first = f.enqueue(f.deduplicated("order-1")).await;
    assert_eq!(f.try_enqueue(f.deduplicated("order-1")).await, EnqueueResult::Duplicate(first));
    assert_eq!(f.try_enqueue(f.deduplicated("order-2")).await, EnqueueResult::Stored);
    let claimed = f.claim(f.process(), 1, at(0)).await;
    assert_eq!(f.try_enqueue(f.deduplicated("order-1")).await, EnqueueResult::Duplicate(first));
    assert_eq!(f.settle(&claimed[0], Verdict::Done, at(0)).await, SettleResult::Applied);
    assert_eq!(f.try_enqueue(f.deduplicated("order-1")).await, EnqueueResult::Stored);
}

// spec: D-33
pub async fn a_pending_message_is_replaced_on_request(f: Fixture) {
    let first = f.enqueue(Message { due_at: at(60), ..f.deduplicated("order") }).await;
    let newer = Message { due_at: at(5), ..f.deduplicated("order") };
    let second = newer.id;
    assert_eq!(f.try_replace(newer.clone()).await, EnqueueResult::Replaced(first));
    assert_eq!(f.try_replace(newer).await, EnqueueResult::Duplicate(second));
    assert_eq!(f.state(first).await, None);
    assert_eq!(f.claim_one(at(60)).await.message.id, second);
}

pub async fn a_running_message_is_not_replaced(f: Fixture) {
    let first = f.enqueue(f.deduplicated("order")).await;
    f.claim_one(at(0)).await;
    assert_eq!(f.try_replace(f.deduplicated("order")).await, EnqueueResult::Duplicate(first));
    assert_eq!(f.state(first).await, Some(MessageState::Running));
}

// spec: D-32
pub async fn many_replacements_at_once_leave_exactly_one_alive(f: Fixture) {
    let nodes = f.nodes(4).await.into_iter().cycle().take(32).collect();
    let results =
        together(nodes, |node| async move { node.try_replace(node.deduplicated("timer")).await });
    let mut replaced = BTreeSet::new();
    let mut stored = 0;
    for result in results.await {
        match result {
            EnqueueResult::Stored => stored += 1,
            EnqueueResult::Replaced(id) => assert!(replaced.insert(id), "replaced twice"),
            EnqueueResult::Duplicate(id) => panic!("{id} was pending and must be replaced"),
        }
    }
    assert_eq!((stored, replaced.len()), (1, 31));
    let all = f.inspect.messages(MessageFilter::default(), PageRequest::first(100)).await.unwrap();
    assert_eq!(all.rows.len(), 1);
}

// spec: D-34
pub async fn deleting_an_old_message_does_not_free_the_key_of_a_newer_one(f: Fixture) {
    let old = f.finish(f.deduplicated("timer"), Verdict::Done, at(0)).await;
    let newer = f.enqueue(f.deduplicated("timer")).await;
    assert_eq!(f.command(Command::Delete(old)).await, CommandResult::Applied(1));
    assert_eq!(f.try_enqueue(f.deduplicated("timer")).await, EnqueueResult::Duplicate(newer));
}

pub async fn a_key_alone_deduplicates_nothing(f: Fixture) {
    let named = Message { key: Some(key("7")), ..f.message() };
    assert_eq!(f.try_enqueue(named.clone()).await, EnqueueResult::Stored);
    let other = Message { key: named.key, ..f.message() };
    assert_eq!(f.try_enqueue(other).await, EnqueueResult::Stored);
}

pub async fn a_redriven_message_is_stored_again_when_it_comes_back_changed(f: Fixture) {
    let message = f.message();
    let id = f.finish(message.clone(), Verdict::Done, at(0)).await;
    let same = Message { source: Source::Redriven, ..message.clone() };
    assert_eq!(
        f.try_enqueue(same.clone()).await,
        EnqueueResult::Duplicate(id),
        "it did not change"
    );
    let changed = Message { due_at: at(32), ..same };
    assert_eq!(f.try_enqueue(changed).await, EnqueueResult::Stored);
    let record = f.record(id).await;
    assert_eq!(
        (record.state, record.due_at, record.ended_at),
        (MessageState::Pending, at(32), None)
    );
}

pub async fn a_dead_letter_is_not_brought_back_by_a_late_copy(f: Fixture) {
    let message = f.message();
    let id = f.finish(message.clone(), dead(), at(0)).await;
    let late = Message { due_at: at(32), ..held(message) };
    assert_eq!(f.try_replace(late).await, EnqueueResult::Duplicate(id));
    assert_eq!(f.state(id).await, Some(MessageState::Dead));
}

pub async fn of_many_with_one_key_at_once_exactly_one_is_stored(f: Fixture) {
    let nodes = f.nodes(4).await.into_iter().cycle().take(32).collect();
    let results = together(nodes, |node| async move {
        let message = node.deduplicated("order");
        (message.id, node.try_enqueue(message).await)
    });
    let results = results.await;
    let stored = results.iter().filter(|(_, result)| *result == EnqueueResult::Stored);
    let stored: Vec<MessageId> = stored.map(|(id, _)| *id).collect();
    let [winner] = stored[..] else { panic!("{} were stored", stored.len()) };
    for (id, result) in results.into_iter().filter(|(id, _)| *id != winner) {
        assert_eq!(result, EnqueueResult::Duplicate(winner), "the result for {id}");
    }
    assert_eq!(ids_of(&f.claim(f.process(), 9, at(0)).await), [winner]);
}
