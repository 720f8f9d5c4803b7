//! Batch members: messages that belong together, and messages that wait until none of them is alive.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use punctual::backend::policy::Verdict;
use punctual::backend::storage::{Command, END_OF_TIME, Entry, SettleResult};
use punctual::inspect::{MessageFilter, PageRequest};
use punctual::model::{BatchId, IdSource, Message, MessageId, MessageState, Relations};

use super::Fixture;
use super::fixture::{again, at, dead, default_source, ids_of, is_notified, together};

behaviours! {
    a_message_that_waits_for_a_batch_is_due_when_the_last_of_it_has_ended,
    every_ending_of_the_last_message_of_a_batch_ends_it,
    a_retry_does_not_end_a_batch,
    a_message_does_not_wait_for_an_empty_batch,
    a_message_keeps_its_planned_time_while_it_waits_for_a_batch,
    a_batch_ends_once_however_many_nodes_end_its_last_messages_at_once,
    the_end_of_a_batch_notifies,
    a_batch_is_counted_and_listed,
}

fn batch(f: &Fixture) -> BatchId {
    BatchId::from_uuid(f.ids.next(at(0)))
}

fn member(f: &Fixture, batch: BatchId) -> Message {
    let relations = Relations { batch: Some(batch), ..Relations::default() };
    Message { relations: Some(Arc::new(relations)), ..f.message() }
}

fn waiting(f: &Fixture, batch: BatchId) -> Message {
    let relations = Relations { waits_for: Some(batch), ..Relations::default() };
    Message { relations: Some(Arc::new(relations)), ..f.message() }
}

/// Enqueues a batch and a message that waits for it in one call, the latter first; returns their ids.
async fn stored(f: &Fixture, batch: BatchId, members: usize) -> (Vec<MessageId>, MessageId) {
    let last = waiting(f, batch);
    let members: Vec<Message> = (0..members).map(|_| member(f, batch)).collect();
    let ids = (members.iter().map(|one| one.id).collect(), last.id);
    let entries = std::iter::once(last).chain(members).map(Entry::from).collect();
    f.storage.enqueue(entries, at(0)).await.unwrap();
    ids
}

pub async fn a_message_that_waits_for_a_batch_is_due_when_the_last_of_it_has_ended(f: Fixture) {
    let (ids, last) = stored(&f, batch(&f), 2).await;
    assert_eq!(f.record(last).await.due_at, END_OF_TIME);
    let claimed = f.claim(f.process(), 9, at(1)).await;
    assert_eq!(ids_of(&claimed), ids);
    f.settle(&claimed[0], Verdict::Done, at(2)).await;
    assert!(f.claim(f.process(), 9, at(2)).await.is_empty());
    f.settle(&claimed[1], dead(), at(3)).await;
    let claimed = f.claim_one(at(3)).await;
    assert_eq!((claimed.message.id, claimed.due_at), (last, at(0)));
}

pub async fn every_ending_of_the_last_message_of_a_batch_ends_it(f: Fixture) {
    let (ids, last) = stored(&f, batch(&f), 1).await;
    f.command(Command::Cancel(ids[0])).await;
    assert_eq!(f.claim_one(at(1)).await.message.id, last, "cancelled while it waited");
    let (ids, last) = stored(&f, batch(&f), 1).await;
    f.command(Command::Delete(ids[0])).await;
    assert_eq!(f.claim_one(at(1)).await.message.id, last, "deleted");
    let (_, last) = stored(&f, batch(&f), 1).await;
    let claimed = f.claim_one(at(1)).await;
    f.settle(&claimed, Verdict::Cancelled, at(2)).await;
    assert_eq!(f.claim_one(at(2)).await.message.id, last, "cancelled while it ran");
}

pub async fn a_retry_does_not_end_a_batch(f: Fixture) {
    let (ids, last) = stored(&f, batch(&f), 1).await;
    let claimed = f.claim_one(at(1)).await;
    f.settle(&claimed, again(&claimed, at(9)), at(2)).await;
    assert!(f.claim(f.process(), 9, at(8)).await.is_empty());
    let claimed = f.claim_one(at(9)).await;
    assert_eq!(claimed.message.id, ids[0]);
    f.settle(&claimed, Verdict::Done, at(9)).await;
    assert_eq!(f.claim_one(at(9)).await.message.id, last);
}

pub async fn a_message_does_not_wait_for_an_empty_batch(f: Fixture) {
    let id = f.enqueue(waiting(&f, batch(&f))).await;
    assert_eq!(f.record(id).await.due_at, at(0));
    let done = batch(&f);
    f.finish(Message { due_at: at(-9), ..member(&f, done) }, Verdict::Done, at(1)).await;
    let id = f.enqueue(waiting(&f, done)).await;
    assert_eq!(f.record(id).await.due_at, at(0));
}

pub async fn a_message_keeps_its_planned_time_while_it_waits_for_a_batch(f: Fixture) {
    let batch = batch(&f);
    f.enqueue(member(&f, batch)).await;
    let last = f.enqueue(Message { due_at: at(50), ..waiting(&f, batch) }).await;
    let claimed = f.claim_one(at(1)).await;
    f.settle(&claimed, Verdict::Done, at(2)).await;
    assert!(f.claim(f.process(), 9, at(49)).await.is_empty());
    assert_eq!(f.claim_one(at(50)).await.message.id, last);
}

pub async fn a_batch_ends_once_however_many_nodes_end_its_last_messages_at_once(f: Fixture) {
    let nodes = f.nodes(4).await;
    for _ in 0..10 {
        let (_, last) = stored(&f, batch(&f), 4).await;
        let claimed = f.claim(f.process(), 4, at(1)).await;
        let left = Arc::new(Mutex::new(claimed));
        let settle = |node: Fixture| {
            let one = left.lock().unwrap().pop().expect("one for each node");
            async move { node.settle(&one, Verdict::Done, at(2)).await }
        };
        assert_eq!(together(nodes.clone(), settle).await, [SettleResult::Applied; 4]);
        let claimed = f.claim_one(at(2)).await;
        assert_eq!(claimed.message.id, last);
        f.settle(&claimed, Verdict::Done, at(2)).await;
    }
}

pub async fn the_end_of_a_batch_notifies(f: Fixture) {
    stored(&f, batch(&f), 1).await;
    let claimed = f.claim_one(at(1)).await;
    let mut wakeup = f.storage.wakeup(&default_source());
    while super::fixture::pending_notifications(&mut wakeup) > 0 {}
    f.settle(&claimed, Verdict::Done, at(2)).await;
    assert!(is_notified(&mut wakeup).await);
    assert_eq!(f.storage.next_due(&default_source()).await.unwrap(), Some(at(0)));
}

pub async fn a_batch_is_counted_and_listed(f: Fixture) {
    let (wanted, other) = (batch(&f), batch(&f));
    let (mut ids, _) = stored(&f, wanted, 4).await;
    let claimed = f.claim(f.process(), 3, at(1)).await;
    f.settle(&claimed[0], Verdict::Done, at(2)).await;
    f.settle(&claimed[1], dead(), at(2)).await;
    f.enqueue(member(&f, other)).await;
    let counts = f.inspect.batch(wanted).await.unwrap();
    let one_of_each =
        [MessageState::Pending, MessageState::Running, MessageState::Done, MessageState::Dead];
    assert_eq!(counts, one_of_each.map(|state| (state, 1)).into());
    assert_eq!(f.inspect.batch(batch(&f)).await.unwrap(), BTreeMap::new());
    let filter = MessageFilter { batch: Some(wanted), ..MessageFilter::default() };
    let found = f.inspect.messages(filter, PageRequest::first(9)).await.unwrap();
    ids.reverse();
    assert_eq!(found.rows.iter().map(|row| row.message.id).collect::<Vec<_>>(), ids);
}
