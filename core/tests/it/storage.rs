//! What only the memory storage promises: bounds, and bells that ring no more often than they must.
//! What every storage promises is in the suite, run from `tests/conformance.rs`.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;
use punctual::inspect::{ExecutionFilter, MessageFilter, PageRequest};
use punctual::jiff::Timestamp;
use punctual::model::{Message, MessageState, Queue};
use punctual::policy::{AgainReason, Verdict};
use punctual::storage::{
    ClaimedMessage, Command, CommandResult, EnqueueResult, Entry, WakeSource, Wakeup,
};
use punctual::{ErrorKind, ManualClock, MemoryStorage, Result};
use punctual_conformance::storage::{Fixture, Node, Place, at};

struct Memory(Arc<MemoryStorage>);

#[async_trait]
impl Place for Memory {
    async fn open(&self) -> Result<Node> {
        Ok(Node::new(Arc::clone(&self.0)))
    }
}

async fn fixture(options: impl FnOnce(MemoryStorage) -> MemoryStorage) -> Fixture {
    let clock = ManualClock::new(at(0));
    let storage = options(MemoryStorage::new(Arc::new(clock.clone())));
    Fixture::on(Memory(Arc::new(storage)), clock).await
}

#[tokio::test]
async fn a_batch_that_does_not_fit_is_refused_as_a_whole_and_can_be_tried_later() {
    let f = fixture(|storage| storage.messages_max(3)).await;
    let kept = f.enqueue_many(2).await;
    let batch: Vec<Entry> = (0..2).map(|_| Entry::from(f.message())).collect();
    let error = f.storage.enqueue(batch.clone(), at(0)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.is_temporary() && error.to_string().contains("messages_max (3)"), "{error}");
    let all = f.inspect.messages(MessageFilter::default(), PageRequest::first(10)).await.unwrap();
    assert_eq!(all.rows.len(), 2);

    assert_eq!(f.command(Command::Cancel(kept[0])).await, CommandResult::Applied(1));
    assert_eq!(f.storage.enqueue(batch.clone(), at(0)).await.unwrap(), [EnqueueResult::Stored; 2]);
    let themselves = batch.iter().map(|entry| EnqueueResult::Duplicate(entry.message.id));
    let again = f.storage.enqueue(batch.clone(), at(0)).await.unwrap();
    assert_eq!(again, themselves.collect::<Vec<_>>(), "a full storage still knows what it has");
}

#[tokio::test]
async fn history_beyond_its_bound_falls_out_oldest_first() {
    let f = fixture(|storage| storage.history_max(2)).await;
    let mut ids = Vec::new();
    for second in [1, 3, 2, 4] {
        ids.push(f.finish(f.message(), Verdict::Done, at(second)).await);
    }
    assert_eq!(f.state(ids[0]).await, None);
    assert_eq!(f.state(ids[1]).await, Some(MessageState::Done));
    assert_eq!(f.state(ids[2]).await, None);
    assert_eq!(f.state(ids[3]).await, Some(MessageState::Done));
    let all =
        f.inspect.executions(ExecutionFilter::default(), PageRequest::first(9)).await.unwrap();
    assert_eq!(all.rows.len(), 2);
    let waiting = f.enqueue_many(5).await;
    assert_eq!(f.state(waiting[0]).await, Some(MessageState::Pending), "what waits is not history");
}

/// Whether it rang since it was last asked.
fn has_rung(wakeup: &mut Wakeup) -> bool {
    let notified = pin!(wakeup.notified());
    notified.poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
}

fn again(claimed: &ClaimedMessage, due_at: Timestamp) -> Verdict {
    Verdict::Again {
        due_at,
        attempt: claimed.attempt,
        crashes: claimed.crashes,
        snoozes: claimed.snoozes,
        error: None,
        why: AgainReason::Retry,
    }
}

#[tokio::test]
async fn a_queue_rings_when_it_becomes_due_earlier_and_at_no_other_time() {
    let f = fixture(|storage| storage).await;
    let mut bell = f.storage.wakeup(&WakeSource::Queue(Queue::default()));
    assert!(!has_rung(&mut bell));
    let id = f.enqueue(f.due(at(100))).await;
    assert!(has_rung(&mut bell), "enqueue");
    f.command(Command::Reschedule { id, due_at: at(10) }).await;
    assert!(has_rung(&mut bell), "reschedule");
    let claimed = f.claim_one(at(10)).await;
    assert!(!has_rung(&mut bell), "a claim makes nothing due");
    f.settle(&claimed, again(&claimed, at(20)), at(10)).await;
    assert!(has_rung(&mut bell), "settled to be due again");
    let claimed = f.claim_one(at(20)).await;
    f.command(Command::Cancel(id)).await;
    assert!(!has_rung(&mut bell), "the cancel of a running one makes nothing due");
    f.settle(&claimed, Verdict::Cancelled, at(21)).await;
    assert!(!has_rung(&mut bell));
    let slow = Queue::new("slow").unwrap();
    f.enqueue(Message { queue: slow, ..f.message() }).await;
    assert!(!has_rung(&mut bell), "another queue");
    f.inspect.counts(at(0)).await.unwrap();
    assert!(!has_rung(&mut bell), "reading");
}

#[tokio::test]
async fn many_rings_are_heard_once_by_each_who_listens() {
    let f = fixture(|storage| storage).await;
    let listen = || f.storage.wakeup(&WakeSource::Queue(Queue::default()));
    let (mut one, mut two) = (listen(), listen());
    f.enqueue(f.due(at(9))).await;
    f.enqueue(f.due(at(8))).await;
    assert!(has_rung(&mut one) && has_rung(&mut two));
    assert!(!has_rung(&mut one) && !has_rung(&mut two));
}
