//! Contents of messages: large bodies, long names, every byte.

use std::sync::Arc;

use punctual::backend::policy::{AgainReason, Verdict};
use punctual::backend::storage::ClaimedMessage;
use punctual::inspect::{ExecutionFilter, PageRequest};
use punctual::model::{Body, Key, Priority, Queue, Topic};
use punctual::{Inspect as _, Message};

use crate::fixture::{Fixture, at, claim, offer, settle};

async fn through(f: &Fixture, message: Message) -> ClaimedMessage {
    let storage = f.open().await;
    offer(&storage, message.clone()).await;
    storage.close().await.unwrap();
    let storage = f.open().await;
    let claimed = claim(&storage, f.process(), 1).await.remove(0);
    assert_eq!(*claimed.message, message);
    let stored = storage.message(message.id).await.unwrap().unwrap();
    assert_eq!(*stored.message, message);
    claimed
}

#[tokio::test]
async fn a_body_of_a_mebibyte_reads_back_in_every_state() {
    let f = Fixture::new();
    let bytes: Vec<u8> = (0..=250_u8).cycle().take(1 << 20).collect();
    let message = Message { body: Body::raw(bytes, "application/octet-stream"), ..f.message() };
    let claimed = through(&f, message.clone()).await;
    let storage = f.open().await;
    settle(&storage, vec![f.settlement(&claimed, Verdict::Done)]).await;
    let done = storage.message(message.id).await.unwrap().unwrap();
    assert_eq!(*done.message, message);
}

#[tokio::test]
async fn a_body_may_hold_every_byte_and_none() {
    for bytes in [Vec::new(), vec![0], b"a\0b".to_vec(), (0..=255).collect()] {
        let f = Fixture::new();
        through(&f, Message { body: Body::raw(bytes, "application/json"), ..f.message() }).await;
    }
}

#[tokio::test]
async fn names_of_200_characters_and_of_any_alphabet_read_back() {
    for letter in ["x", "ż", "漢", "🦀", "'"] {
        let f = Fixture::new();
        let name = letter.repeat(200);
        let message = Message {
            topic: Topic::new(&name).unwrap(),
            key: Some(Key::new(&name).unwrap()),
            dedupe: Some(Key::new(&name).unwrap()),
            ..f.message()
        };
        through(&f, message).await;
    }
    let f = Fixture::new();
    let storage = f.open().await;
    let queue = Queue::new("ż".repeat(200)).unwrap();
    offer(&storage, Message { queue: queue.clone(), priority: Priority::HIGHEST, ..f.message() })
        .await;
    let counts = storage.counts(at(0)).await.unwrap();
    assert_eq!(counts.messages.keys().next().unwrap().0, queue);
}

#[tokio::test]
async fn an_error_or_a_note_with_nul_is_kept_without_it() {
    let f = Fixture::new();
    let storage = f.open().await;
    let message = f.message();
    offer(&storage, message.clone()).await;
    let claimed = claim(&storage, f.process(), 1).await.remove(0);
    let again = Verdict::Again {
        due_at: at(20),
        attempt: 1,
        crashes: 0,
        snoozes: 0,
        error: Some(Arc::from("broken\0pipe")),
        why: AgainReason::Retry,
    };
    let mut settlement = f.settlement(&claimed, again);
    let mut execution = (**settlement.execution.as_ref().unwrap()).clone();
    execution.note = Some(Arc::from("\0\0"));
    settlement.execution = Some(Arc::new(execution));
    settle(&storage, vec![settlement]).await;
    let stored = storage.message(message.id).await.unwrap().unwrap();
    assert_eq!(stored.error.as_deref(), Some("broken\u{fffd}pipe"));
    let page = storage.executions(ExecutionFilter::default(), PageRequest::first(9)).await.unwrap();
    assert_eq!(page.rows[0].note.as_deref(), Some("\u{fffd}\u{fffd}"));
}
