//! Rows of the history: a message and its last attempt share a row where possible, and have separate rows otherwise.

use punctual::backend::policy::Verdict;
use punctual::backend::storage::{
    BrokerRecord, ClaimedMessage, Command, CommandResult, Prune, SettleResult, Settlement,
};
use punctual::clock::subtract;
use punctual::inspect::{ExecutionFilter, Inspect, PageRequest};
use punctual::jiff::Timestamp;
use punctual::model::{Ending, Execution, ExecutionId, MessageId, MessageState};
use punctual::{Clock, Storage, SystemClock};
use punctual_postgres::PostgresStorage;

use crate::schema::{TestSchema, settle};

punctual_conformance::cases! {
    an_attempt_that_is_stored_already_does_not_lose_its_message,
    a_message_that_is_sent_again_keeps_its_attempt_in_the_history,
    rows_of_one_kind_do_not_use_up_the_limit_of_the_other,
}

/// Returns the time with the microsecond precision of a column.
fn now() -> Timestamp {
    Timestamp::from_microsecond(SystemClock.now().as_microsecond()).unwrap()
}

fn execution(database: &TestSchema, claimed: &ClaimedMessage, ended_at: Timestamp) -> Execution {
    Execution {
        id: ExecutionId::from_uuid(database.process().as_uuid()),
        message: Some(claimed.message.id),
        topic: claimed.message.topic.clone(),
        queue: claimed.message.queue.clone(),
        key: None,
        job: None,
        nominal: None,
        source: claimed.message.source,
        attempt: claimed.attempt,
        attempts_max: Some(5),
        process: Some(claimed.lease.owner),
        due_at: claimed.due_at,
        started_at: ended_at,
        ended_at,
        ending: Ending::Succeeded,
        note: None,
        log: None,
    }
}

async fn claimed(database: &TestSchema, storage: &PostgresStorage) -> ClaimedMessage {
    storage.enqueue(database.entries(1), now()).await.unwrap();
    database.claim(storage, 1).await.remove(0)
}

async fn done(storage: &PostgresStorage, claimed: &ClaimedMessage, execution: &Execution) {
    let execution = Some(execution.clone().into());
    let settlement = Settlement::new(claimed.lease_ref(), Verdict::Done, execution);
    assert_eq!(storage.settle(vec![settlement], now()).await.unwrap(), [SettleResult::Applied]);
}

async fn attempts(storage: &PostgresStorage, message: MessageId) -> Vec<Execution> {
    let filter = ExecutionFilter { message: Some(message), ..ExecutionFilter::default() };
    storage.executions(filter, PageRequest::first(10)).await.unwrap().rows
}

async fn an_attempt_that_is_stored_already_does_not_lose_its_message() {
    let database = TestSchema::new();
    let storage = database.open().await;
    let claimed = claimed(&database, &storage).await;
    let execution = execution(&database, &claimed, now());
    let record = BrokerRecord { execution: execution.clone().into(), dead: None };
    storage.record(vec![record], now()).await.unwrap();
    done(&storage, &claimed, &execution).await;
    let id = claimed.message.id;
    assert_eq!(storage.message(id).await.unwrap().unwrap().state, MessageState::Done);
    assert_eq!(attempts(&storage, id).await, [execution]);
}

async fn a_message_that_is_sent_again_keeps_its_attempt_in_the_history() {
    let database = TestSchema::new();
    let storage = database.open().await;
    let claimed = claimed(&database, &storage).await;
    let first = execution(&database, &claimed, now());
    done(&storage, &claimed, &first).await;
    let id = claimed.message.id;
    let redrive = Command::Redrive { id, due_at: now() };
    assert_eq!(storage.command(redrive, now()).await.unwrap(), CommandResult::Applied(1));
    assert_eq!(storage.message(id).await.unwrap().unwrap().state, MessageState::Pending);
    assert_eq!(attempts(&storage, id).await, std::slice::from_ref(&first));
    let again = database.claim(&*storage, 1).await.remove(0);
    let second = execution(&database, &again, now());
    done(&storage, &again, &second).await;
    assert_eq!(attempts(&storage, id).await, [second, first]);
    let delete = storage.command(Command::Delete(id), now()).await.unwrap();
    assert_eq!(delete, CommandResult::Applied(1));
    assert!(storage.message(id).await.unwrap().is_none());
    assert!(attempts(&storage, id).await.is_empty());
}

async fn rows_of_one_kind_do_not_use_up_the_limit_of_the_other() {
    let database = TestSchema::new();
    let storage = database.open().await;
    let old = subtract(now(), std::time::Duration::from_secs(60));
    storage.enqueue(database.entries(6), now()).await.unwrap();
    let claimed = database.claim(&*storage, 6).await;
    let record =
        |one| BrokerRecord { execution: execution(&database, one, old).into(), dead: None };
    storage.record(claimed.iter().map(record).collect(), now()).await.unwrap();
    settle(&*storage, &claimed).await;
    let later = punctual::clock::add(now(), std::time::Duration::from_millis(1));
    let prune = Prune { before: later, limit: 5, dead: false };
    let first = storage.prune(prune, later).await.unwrap();
    assert_eq!(first.messages.max(first.executions), 5, "{first:?}");
    let mut all = first.messages + first.executions;
    for _ in 0..12 {
        let more = storage.prune(prune, later).await.unwrap();
        all += more.messages + more.executions;
    }
    assert_eq!(all, 12);
}
