//! Enqueue on the fast paths: large batches, single messages and duplicates.

use std::sync::Arc;

use punctual::backend::storage::{EnqueueResult, Entry};
use punctual::inspect::{Inspect, MessageFilter, PageRequest};
use punctual::model::Message;
use punctual::{Clock, Storage, SystemClock};

use crate::schema::{TestSchema, enqueue, key, settle};

punctual_conformance::cases! {
    five_thousand_with_a_duplicate_in_the_middle_get_a_result_each,
    five_thousand_with_a_finished_one_in_the_middle_do_not_run_it_again,
    many_concurrent_single_messages_are_all_stored,
    a_large_batch_keeps_every_field_of_a_message,
}

async fn five_thousand_with_a_duplicate_in_the_middle_get_a_result_each() {
    let database = TestSchema::new();
    let storage = database.open().await;
    let twin = Message { dedupe: key("order"), ..database.message() };
    let known = twin.id;
    enqueue(&*storage, twin).await;
    let mut entries = database.entries(5_000);
    let second = Message { dedupe: key("order"), ..database.message() };
    entries[2_500] = Entry::from(second);
    let again = entries.clone();
    let answers = storage.enqueue(entries, SystemClock.now()).await.unwrap();
    assert_eq!(answers[2_500], EnqueueResult::Duplicate(known));
    assert_eq!(answers.iter().filter(|answer| **answer == EnqueueResult::Stored).count(), 4_999);
    let repeated = storage.enqueue(again.clone(), SystemClock.now()).await.unwrap();
    for (index, (answer, entry)) in repeated.iter().zip(&again).enumerate() {
        let of = if index == 2_500 { known } else { entry.message.id };
        assert_eq!(*answer, EnqueueResult::Duplicate(of));
    }
}

async fn five_thousand_with_a_finished_one_in_the_middle_do_not_run_it_again() {
    let database = TestSchema::new();
    let storage = database.open().await;
    let entries = database.entries(5_000);
    let done = entries[2_500].clone();
    storage.enqueue(vec![done.clone()], SystemClock.now()).await.unwrap();
    let claimed = database.claim(&*storage, 1).await;
    settle(&*storage, &claimed).await;
    let answers = storage.enqueue(entries, SystemClock.now()).await.unwrap();
    assert_eq!(answers[2_500], EnqueueResult::Duplicate(done.message.id));
    assert_eq!(database.claim(&*storage, 5_000).await.len(), 4_999);
}

async fn many_concurrent_single_messages_are_all_stored() {
    let database = Arc::new(TestSchema::new());
    let storage = database.open().await;
    let tasks: Vec<_> = (0..300)
        .map(|number| {
            let (database, storage) = (Arc::clone(&database), Arc::clone(&storage));
            tokio::spawn(async move {
                // Every third message has the key of another one.
                let dedupe = key(&format!("{}", number / 3));
                let dedupe = dedupe.filter(|_| number % 3 != 0);
                enqueue(&*storage, Message { dedupe, ..database.message() }).await
            })
        })
        .collect();
    let mut stored = 0;
    for task in tasks {
        stored += usize::from(task.await.unwrap() == EnqueueResult::Stored);
    }
    assert_eq!(stored, 200);
    assert_eq!(database.claim(&*storage, 1_000).await.len(), 200);
}

async fn a_large_batch_keeps_every_field_of_a_message() {
    let database = TestSchema::new();
    let storage = database.open().await;
    let mut message = database.message();
    message.headers.insert("tenant", "żółw").unwrap();
    message.key = key("about");
    message.body = punctual::model::Body::raw(vec![0, 255, 7], "application/octet-stream");
    let cut = |at: punctual::jiff::Timestamp| {
        punctual::jiff::Timestamp::from_microsecond(at.as_microsecond()).unwrap()
    };
    message.due_at = cut(message.due_at);
    message.created_at = cut(message.created_at);
    let mut entries = database.entries(1_500);
    entries[700] = Entry::from(message.clone());
    storage.enqueue(entries, SystemClock.now()).await.unwrap();
    let filter = MessageFilter { key: key("about"), ..MessageFilter::default() };
    let found = storage.messages(filter, PageRequest::first(5)).await.unwrap();
    assert_eq!(*found.rows[0].message, message);
}
