//! Bulk, singles and duplicates on the fast paths.

use std::sync::Arc;

use punctual::inspect::{Inspect, MessageFilter, Page};
use punctual::model::Message;
use punctual::storage::{Enqueued, Entry};
use punctual::{Clock, Storage, SystemClock};

use crate::place::{Place, enqueue, key, settle};

punctual_conformance::cases! {
    five_thousand_with_a_duplicate_in_the_middle_are_answered_one_by_one,
    five_thousand_with_a_finished_one_in_the_middle_do_not_run_it_again,
    many_single_messages_at_once_are_all_there,
    a_large_batch_survives_with_everything_a_message_can_have,
}

async fn five_thousand_with_a_duplicate_in_the_middle_are_answered_one_by_one() {
    let place = Place::new();
    let storage = place.open().await;
    let twin = Message { dedupe: key("order"), ..place.message() };
    let known = twin.id;
    enqueue(&*storage, twin).await;
    let mut entries = place.entries(5_000);
    let second = Message { dedupe: key("order"), ..place.message() };
    entries[2_500] = Entry::from(second);
    let again = entries.clone();
    let answers = storage.enqueue(entries, SystemClock.now()).await.unwrap();
    assert_eq!(answers[2_500], Enqueued::Duplicate(known));
    assert_eq!(answers.iter().filter(|answer| **answer == Enqueued::Stored).count(), 4_999);
    let repeated = storage.enqueue(again.clone(), SystemClock.now()).await.unwrap();
    for (place, (answer, entry)) in repeated.iter().zip(&again).enumerate() {
        let of = if place == 2_500 { known } else { entry.message.id };
        assert_eq!(*answer, Enqueued::Duplicate(of));
    }
}

async fn five_thousand_with_a_finished_one_in_the_middle_do_not_run_it_again() {
    let place = Place::new();
    let storage = place.open().await;
    let entries = place.entries(5_000);
    let done = entries[2_500].clone();
    storage.enqueue(vec![done.clone()], SystemClock.now()).await.unwrap();
    let claimed = place.claim(&*storage, 1).await;
    settle(&*storage, &claimed).await;
    let answers = storage.enqueue(entries, SystemClock.now()).await.unwrap();
    assert_eq!(answers[2_500], Enqueued::Duplicate(done.message.id));
    assert_eq!(place.claim(&*storage, 5_000).await.len(), 4_999);
}

async fn many_single_messages_at_once_are_all_there() {
    let place = Arc::new(Place::new());
    let storage = place.open().await;
    let tasks: Vec<_> = (0..300)
        .map(|number| {
            let (place, storage) = (Arc::clone(&place), Arc::clone(&storage));
            tokio::spawn(async move {
                // Every third one is a duplicate of another one's key.
                let dedupe = key(&format!("{}", number / 3));
                let dedupe = dedupe.filter(|_| number % 3 != 0);
                enqueue(&*storage, Message { dedupe, ..place.message() }).await
            })
        })
        .collect();
    let mut stored = 0;
    for task in tasks {
        stored += usize::from(task.await.unwrap() == Enqueued::Stored);
    }
    assert_eq!(stored, 200);
    assert_eq!(place.claim(&*storage, 1_000).await.len(), 200);
}

async fn a_large_batch_survives_with_everything_a_message_can_have() {
    let place = Place::new();
    let storage = place.open().await;
    let mut message = place.message();
    message.headers.insert("tenant", "żółw").unwrap();
    message.key = key("about");
    message.body = punctual::model::Body::raw(vec![0, 255, 7], "application/octet-stream");
    let cut = |at: punctual::jiff::Timestamp| {
        punctual::jiff::Timestamp::from_microsecond(at.as_microsecond()).unwrap()
    };
    message.due_at = cut(message.due_at);
    message.created_at = cut(message.created_at);
    let mut entries = place.entries(1_500);
    entries[700] = Entry::from(message.clone());
    storage.enqueue(entries, SystemClock.now()).await.unwrap();
    let filter = MessageFilter { key: key("about"), ..MessageFilter::default() };
    let found = storage.messages(filter, Page::first(5)).await.unwrap();
    assert_eq!(*found.rows[0].message, message);
}
