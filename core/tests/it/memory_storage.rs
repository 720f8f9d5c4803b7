//! Memory storage: its limits, and that it notifies only when needed. The suite in `tests/conformance.rs` tests
//! what every storage must do.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;
use punctual::backend::policy::{AgainReason, Verdict};
use punctual::backend::storage::{
    ClaimedMessage, Command, CommandResult, EnqueueResult, Entry, WakeSource, Wakeup,
};
use punctual::inspect::{ExecutionFilter, MessageFilter, PageRequest};
use punctual::jiff::Timestamp;
use punctual::model::{Message, MessageState, Queue};
use punctual::{ErrorKind, ManualClock, MemoryStorage, Result};
use punctual_conformance::storage::{Environment, Fixture, Node, at};

struct Memory(Arc<MemoryStorage>);

#[async_trait]
impl Environment for Memory {
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
    let messages = f.enqueue_many(2).await;
    let batch: Vec<Entry> = (0..2).map(|_| Entry::from(f.message())).collect();
    let error = f.storage.enqueue(batch.clone(), at(0)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.is_temporary() && error.to_string().contains("messages_max (3)"), "{error}");
    let all = f.inspect.messages(MessageFilter::default(), PageRequest::first(10)).await.unwrap();
    assert_eq!(all.rows.len(), 2);

    assert_eq!(f.command(Command::Cancel(messages[0])).await, CommandResult::Applied(1));
    assert_eq!(f.storage.enqueue(batch.clone(), at(0)).await.unwrap(), [EnqueueResult::Stored; 2]);
    let themselves = batch.iter().map(|entry| EnqueueResult::Duplicate(entry.message.id));
    let again = f.storage.enqueue(batch.clone(), at(0)).await.unwrap();
    assert_eq!(again, themselves.collect::<Vec<_>>(), "a full storage still knows what it has");
}

#[tokio::test]
async fn history_beyond_its_limit_is_removed_oldest_first() {
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

/// Returns whether it was notified since the last call.
fn is_notified(wakeup: &mut Wakeup) -> bool {
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
async fn a_queue_notifies_when_it_becomes_due_earlier_and_at_no_other_time() {
    let f = fixture(|storage| storage).await;
    let mut wakeup = f.storage.wakeup(&WakeSource::Queue(Queue::default()));
    assert!(!is_notified(&mut wakeup));
    let id = f.enqueue(f.due(at(100))).await;
    assert!(is_notified(&mut wakeup), "enqueue");
    f.command(Command::Reschedule { id, due_at: at(10) }).await;
    assert!(is_notified(&mut wakeup), "reschedule");
    let claimed = f.claim_one(at(10)).await;
    assert!(!is_notified(&mut wakeup), "a claim makes nothing due");
    f.settle(&claimed, again(&claimed, at(20)), at(10)).await;
    assert!(is_notified(&mut wakeup), "settled to be due again");
    let claimed = f.claim_one(at(20)).await;
    f.command(Command::Cancel(id)).await;
    assert!(!is_notified(&mut wakeup), "the cancel of a running one makes nothing due");
    f.settle(&claimed, Verdict::Cancelled, at(21)).await;
    assert!(!is_notified(&mut wakeup));
    let slow = Queue::new("slow").unwrap();
    f.enqueue(Message { queue: slow, ..f.message() }).await;
    assert!(!is_notified(&mut wakeup), "another queue");
    f.inspect.counts(at(0)).await.unwrap();
    assert!(!is_notified(&mut wakeup), "reading");
}

#[tokio::test]
async fn each_subscriber_gets_one_wakeup_for_many_notifications() {
    let f = fixture(|storage| storage).await;
    let listen = || f.storage.wakeup(&WakeSource::Queue(Queue::default()));
    let (mut one, mut two) = (listen(), listen());
    f.enqueue(f.due(at(9))).await;
    f.enqueue(f.due(at(8))).await;
    assert!(is_notified(&mut one) && is_notified(&mut two));
    assert!(!is_notified(&mut one) && !is_notified(&mut two));
}
