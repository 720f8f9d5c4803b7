//! Relations of messages (limits, uniqueness, chains and batches) by every way into the file: the storage,
//! transactions of the application, other processes, and import.

use std::sync::Arc;
use std::time::Duration;

use punctual::backend::policy::Verdict;
use punctual::backend::storage::{
    Claim, ClaimedMessage, Command, END_OF_TIME, EnqueueResult, Entry, JobCommandResult, Prune,
    RateRequest, Settlement, WakeSource,
};
use punctual::clock::{add, within};
use punctual::model::{
    BatchId, IdSource as _, Ids, JobName, Key, Limit, Message, MessageId, MessageRecord,
    MessageState, Occurrence, Queue, Rate, Relations, Unique,
};
use punctual::{Clock as _, Inspect as _, Job, Schedule, Storage as _, SystemClock};
use punctual_sqlite::{SqliteOutbox, SqliteStorage};

use crate::fixture::{Fixture, at, claim, job_record, offer, rows_of, settle};
use crate::outbox::begin;

fn related(message: Message, relations: Relations) -> Message {
    Message { relations: Some(Arc::new(relations)), ..message }
}

fn limited(message: Message, name: &str, running_max: u32) -> Message {
    let name = Key::new(name).unwrap();
    let limit = Limit { name, running_max: Some(running_max), rate: None };
    related(message, Relations { limit: Some(limit), ..Relations::default() })
}

fn unique(f: &Fixture, unique: Unique) -> Message {
    let dedupe = Some(Key::new("order 7").unwrap());
    Message { dedupe, ..related(f.message(), Relations { unique, ..Relations::default() }) }
}

fn member(f: &Fixture, batch: BatchId) -> Message {
    related(f.message(), Relations { batch: Some(batch), ..Relations::default() })
}

fn waiting(f: &Fixture, batch: BatchId) -> Message {
    related(f.message(), Relations { waits_for: Some(batch), ..Relations::default() })
}

fn batch(seed: u64) -> BatchId {
    BatchId::from_uuid(Ids::seeded(seed).next(at(0)))
}

async fn due_at(storage: &SqliteStorage, id: MessageId) -> punctual::jiff::Timestamp {
    storage.message(id).await.unwrap().unwrap().due_at
}

fn ids(claimed: &[ClaimedMessage]) -> Vec<MessageId> {
    claimed.iter().map(|one| one.message.id).collect()
}

/// Batch of one message, the message that waits for it, and its follow-up.
struct RelatedMessages {
    member: Message,
    last: Message,
    next: Message,
    held: Message,
}

impl RelatedMessages {
    fn new(f: &Fixture) -> Self {
        let (member, last) = (member(f, batch(1)), waiting(f, batch(1)));
        let held = unique(f, Unique::For(Duration::from_secs(60)));
        Self { member, last, next: Message { due_at: at(500), ..f.message() }, held }
    }

    /// Returns the waiting message first, so that its batch is imported after it.
    fn entries(&self) -> Vec<Entry> {
        [&self.last, &self.member, &self.held].map(|one| Entry::from(one.clone())).into()
    }

    async fn claimed(&self, f: &Fixture, storage: &SqliteStorage) -> Settlement {
        assert_eq!(due_at(storage, self.last.id).await, END_OF_TIME);
        let claimed = claim(storage, f.process(), 9).await;
        assert_eq!(ids(&claimed), [self.member.id, self.held.id]);
        settle(storage, vec![f.settlement(&claimed[1], Verdict::Done)]).await;
        let then = vec![Arc::new(self.next.clone())];
        Settlement { then, ..f.settlement(&claimed[0], Verdict::Done) }
    }

    async fn is_over(&self, f: &Fixture, storage: &SqliteStorage) {
        assert_eq!(due_at(storage, self.last.id).await, at(0));
        assert_eq!(due_at(storage, self.next.id).await, at(500));
        let again = unique(f, Unique::WhileAlive);
        assert_eq!(offer(storage, again).await, EnqueueResult::Duplicate(self.held.id));
        assert_eq!(rows_of(&f.other_connection(), "punctual_wait"), 0);
        assert_eq!(storage.check().await.unwrap().findings, Vec::<String>::new());
    }
}

#[tokio::test]
async fn relations_are_respected_in_a_transaction_of_the_application() {
    let f = Fixture::new();
    let storage = f.open().await;
    let messages = RelatedMessages::new(&f);
    let mut application = f.other_connection();
    let transaction = begin(&mut application);
    let stored = SqliteOutbox::new(&transaction).enqueue(&messages.entries(), at(0)).unwrap();
    assert_eq!(stored, [EnqueueResult::Stored; 3]);
    transaction.commit().unwrap();
    let settlement = messages.claimed(&f, &storage).await;
    let transaction = begin(&mut application);
    SqliteOutbox::new(&transaction).settle(settlement, at(11)).unwrap();
    transaction.commit().unwrap();
    messages.is_over(&f, &storage).await;
}

#[cfg(feature = "sqlx")]
#[tokio::test]
async fn relations_are_respected_in_a_transaction_of_sqlx() {
    use punctual::Outbox as _;
    use punctual_sqlite::SqliteSqlxOutbox;

    let f = Fixture::new();
    let storage = f.open().await;
    let messages = RelatedMessages::new(&f);
    let mut connection = crate::sqlx::connect(&f).await;
    let mut transaction = crate::sqlx::begin(&mut connection).await;
    let mut outbox = SqliteSqlxOutbox::new(&mut transaction);
    let stored = outbox.enqueue(messages.entries(), at(0)).await.unwrap();
    assert_eq!(stored, [EnqueueResult::Stored; 3]);
    let kept_out = vec![Entry::from(unique(&f, Unique::WhileAlive))];
    let results = outbox.enqueue(kept_out, at(1)).await.unwrap();
    assert_eq!(results, [EnqueueResult::Duplicate(messages.held.id)]);
    transaction.commit().await.unwrap();
    let settlement = messages.claimed(&f, &storage).await;
    let mut transaction = crate::sqlx::begin(&mut connection).await;
    let mut outbox = SqliteSqlxOutbox::new(&mut transaction);
    outbox.settle(settlement, at(11)).await.unwrap();
    let kept_out = vec![Entry::from(unique(&f, Unique::WhileAlive))];
    let results = outbox.enqueue(kept_out, at(1)).await.unwrap();
    assert_eq!(
        results,
        [EnqueueResult::Duplicate(messages.held.id)],
        "done, and its minute is not over"
    );
    transaction.commit().await.unwrap();
    messages.is_over(&f, &storage).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_process_is_woken_when_the_lane_or_the_batch_it_waits_for_is_over() {
    let f = Fixture::new();
    let (here, there) = (f.open().await, f.open().await);
    let source = WakeSource::Queue(Queue::default());
    let entries = [
        limited(member(&f, batch(1)), "mail", 1),
        limited(f.message(), "mail", 1),
        waiting(&f, batch(2)),
        member(&f, batch(2)),
    ];
    here.enqueue(entries.map(Entry::from).into(), at(0)).await.unwrap();
    let claimed = claim(&here, f.process(), 9).await;
    assert_eq!(claimed.len(), 2);
    for (one, due) in claimed.iter().zip([Some(at(0)), Some(at(0))]) {
        assert_eq!(claim(&there, f.process(), 9).await, []);
        let due_at = there.next_due(&source).await.unwrap();
        assert!(due_at.is_none_or(|due_at| due_at == END_OF_TIME), "{due_at:?}");
        let mut wakeup = there.wakeup(&source);
        settle(&here, vec![f.settlement(one, Verdict::Done)]).await;
        let limit = add(SystemClock.now(), Duration::from_secs(5));
        assert!(within(&SystemClock, limit, wakeup.notified()).await.is_some());
        assert_eq!(there.next_due(&source).await.unwrap(), due);
        let next = claim(&there, f.process(), 9).await;
        assert_eq!(next.len(), 1);
        settle(&there, vec![f.settlement(&next[0], Verdict::Done)]).await;
    }
}

#[tokio::test]
async fn two_messages_of_one_limit_that_allow_different_numbers_count_together() {
    let f = Fixture::new();
    let storage = f.open().await;
    let allowing = |running_max| limited(f.message(), "mail", running_max);
    let messages = [allowing(1), allowing(3), allowing(1), allowing(3), allowing(3)];
    let order: Vec<MessageId> = messages.iter().map(|one| one.id).collect();
    storage.enqueue(messages.map(Entry::from).into(), at(0)).await.unwrap();
    let claimed = claim(&storage, f.process(), 9).await;
    assert_eq!(ids(&claimed), [order[0], order[1], order[3]]);
    settle(&storage, vec![f.settlement(&claimed[1], Verdict::Done)]).await;
    assert_eq!(ids(&claim(&storage, f.process(), 9).await), [order[4]], "the first has to wait");
}

#[tokio::test]
async fn limited_and_other_messages_are_claimed_in_one_order() {
    let f = Fixture::new();
    let storage = f.open().await;
    let due = |second: i64| f.due(at(second));
    let messages = [
        due(1),
        limited(due(2), "b", 9),
        limited(due(3), "a", 9),
        due(4),
        limited(due(5), "b", 9),
        due(6),
    ];
    let order: Vec<MessageId> = messages.iter().map(|one| one.id).collect();
    storage.enqueue(messages.map(Entry::from).into(), at(0)).await.unwrap();
    let first = claim(&storage, f.process(), 3).await;
    assert_eq!(ids(&first), order[..3]);
    assert_eq!(ids(&claim(&storage, f.process(), 9).await), order[3..]);
}

#[tokio::test]
async fn a_redriven_message_has_its_limit_and_its_batch_again() {
    let f = Fixture::new();
    let storage = f.open().await;
    let relations = (*limited(f.message(), "mail", 1).relations.unwrap()).clone();
    let message = related(f.message(), Relations { batch: Some(batch(1)), ..relations });
    offer(&storage, message.clone()).await;
    let claimed = claim(&storage, f.process(), 1).await.remove(0);
    settle(&storage, vec![f.settlement(&claimed, Verdict::Done)]).await;
    let redrive = Command::Redrive { id: message.id, due_at: at(0) };
    storage.command(redrive, at(12)).await.unwrap();
    assert_eq!(storage.batch(batch(1)).await.unwrap(), [(MessageState::Pending, 1)].into());
    let last = waiting(&f, batch(1));
    offer(&storage, last.clone()).await;
    assert_eq!(due_at(&storage, last.id).await, END_OF_TIME);
    offer(&storage, limited(f.message(), "mail", 1)).await;
    assert_eq!(ids(&claim(&storage, f.process(), 9).await), [message.id]);
}

#[tokio::test]
async fn a_job_that_is_removed_ends_the_batch_of_its_messages() {
    let f = Fixture::new();
    let storage = f.open().await;
    let job = Job::new("nightly", Schedule::once(at(90))).unwrap();
    storage.declare(job_record(job), None, at(0)).await.unwrap();
    let name = JobName::new("nightly").unwrap();
    let run = Occurrence { job: name.clone(), nominal: at(0), schedule: None, misfire: None };
    offer(&storage, Message { occurrence: Some(run), ..member(&f, batch(1)) }).await;
    let last = waiting(&f, batch(1));
    offer(&storage, last.clone()).await;
    assert_eq!(due_at(&storage, last.id).await, END_OF_TIME);
    let removed = storage.remove_job(&name, 1, at(1)).await.unwrap();
    assert!(matches!(removed, JobCommandResult::Applied(_)));
    assert_eq!(due_at(&storage, last.id).await, at(0));
}

#[tokio::test]
async fn a_message_that_waits_for_a_batch_may_be_imported_before_it() {
    let f = Fixture::new();
    let storage = f.open().await;
    let last = MessageRecord {
        due_at: END_OF_TIME,
        ..MessageRecord::new(Arc::new(waiting(&f, batch(1))))
    };
    let one = MessageRecord::new(Arc::new(member(&f, batch(1))));
    storage.import_messages(vec![last.clone()], at(1)).await.unwrap();
    storage.import_messages(vec![one.clone()], at(1)).await.unwrap();
    let claimed = claim(&storage, f.process(), 9).await;
    assert_eq!(ids(&claimed), [one.message.id]);
    settle(&storage, vec![f.settlement(&claimed[0], Verdict::Done)]).await;
    assert_eq!(due_at(&storage, last.message.id).await, at(0));
}

#[tokio::test]
async fn a_key_that_was_free_in_another_storage_is_free_after_an_import() {
    let (f, other) = (Fixture::new(), Fixture::new());
    let there = f.open().await;
    let pending = || unique(&f, Unique::WhilePending);
    let running = pending();
    offer(&there, running.clone()).await;
    claim(&there, f.process(), 1).await;
    let second = pending();
    assert_eq!(offer(&there, second.clone()).await, EnqueueResult::Stored);
    let mut records = Vec::new();
    for id in [second.id, running.id] {
        records.push(there.message(id).await.unwrap().unwrap());
    }
    let here = other.open().await;
    assert_eq!(here.import_messages(records, at(1)).await.unwrap(), [EnqueueResult::Stored; 2]);
    assert_eq!(offer(&here, pending()).await, EnqueueResult::Duplicate(second.id));
}

#[tokio::test]
async fn keys_and_rates_whose_time_is_over_are_forgotten() {
    let f = Fixture::new();
    let storage = f.open().await;
    let other = f.other_connection();
    let held = |number: u64| {
        let dedupe = Some(Key::new(number.to_string()).unwrap());
        Message { dedupe, ..unique(&f, Unique::For(Duration::from_secs(60))) }
    };
    let entries = (0..40).map(|number| held(number).into()).collect();
    storage.enqueue(entries, at(0)).await.unwrap();
    storage.enqueue(vec![held(99).into()], at(60)).await.unwrap();
    assert_eq!(rows_of(&other, "punctual_held"), 41 - 16, "a few with each that is held");
    let rate = Rate { count: 1, per: Duration::from_secs(10) };
    let permit = RateRequest { name: Key::new("mail").unwrap(), rate, requested: 1 };
    storage.acquire_rate(permit, at(60)).await.unwrap();
    let prune = Prune { before: at(0), limit: 100, dead: false };
    storage.prune(prune, at(61)).await.unwrap();
    assert_eq!((rows_of(&other, "punctual_held"), rows_of(&other, "punctual_rate")), (1, 1));
    storage.prune(prune, at(120)).await.unwrap();
    assert_eq!((rows_of(&other, "punctual_held"), rows_of(&other, "punctual_rate")), (0, 0));
}

#[tokio::test]
async fn many_lanes_are_worked_on_in_the_order_of_their_messages() {
    let f = Fixture::new();
    let storage = f.open().await;
    let entries = (0..500_i64).map(|number| {
        // The order of the names differs from that of the due times.
        let name = format!("customer {}", (number * 7) % 250);
        limited(f.due(at(number % 10)), &name, 1).into()
    });
    storage.enqueue(entries.collect(), at(0)).await.unwrap();
    let mut handled = 0;
    for _ in 0..60 {
        let wanted = Claim::new(Queue::default(), f.process(), 20, at(60));
        let claimed = storage.claim(wanted, at(10)).await.unwrap();
        assert!(claimed.is_sorted_by_key(|one| (one.due_at, one.message.id)));
        handled += claimed.len();
        let settlements = claimed.iter().map(|one| f.settlement(one, Verdict::Done)).collect();
        settle(&storage, settlements).await;
    }
    assert_eq!(handled, 500);
}
