//! Partitions of the history: created ahead, dropped as a whole, never blocking a write.

use std::time::Duration;

use punctual::backend::storage::{Prune, PruneResult};
use punctual::clock::{add, subtract};
use punctual::inspect::{ExecutionFilter, Inspect, PageRequest};
use punctual::jiff::Timestamp;
use punctual::model::MessageState;
use punctual::{Clock, Storage, SystemClock};

use crate::schema::{TestSchema, settle};

punctual_conformance::cases! {
    todays_history_is_in_todays_partition,
    an_old_partition_is_dropped_as_a_whole_and_counted,
    history_that_is_kept_for_hours_is_pruned_row_by_row,
}

const DAY: Duration = Duration::from_secs(86_400);

async fn count(database: &TestSchema, table: &str) -> i64 {
    let text = format!("SELECT count(*) FROM \"{}\".{table}", database.schema);
    database.client().await.query_one(&text, &[]).await.unwrap().get(0)
}

async fn finish(database: &TestSchema, storage: &dyn Storage, number: usize) {
    storage.enqueue(database.entries(number), SystemClock.now()).await.unwrap();
    let claimed = database.claim(storage, number).await;
    assert_eq!(settle(storage, &claimed).await.len(), number);
}

fn name(at: Timestamp) -> String {
    format!("history_{}", at.strftime("%Y%m%d"))
}

async fn todays_history_is_in_todays_partition() {
    let database = TestSchema::new();
    let storage = database.open().await;
    finish(&database, &*storage, 7).await;
    assert_eq!(count(&database, "history_rest").await, 0);
    assert_eq!(count(&database, &name(SystemClock.now())).await, 7);
    for ahead in [1, 2] {
        let day = add(SystemClock.now(), DAY * ahead);
        assert_eq!(count(&database, &name(day)).await, 0);
    }
}

// spec: H-17, H-18, H-65
async fn an_old_partition_is_dropped_as_a_whole_and_counted() {
    let database = TestSchema::new();
    let storage = database.open().await;
    finish(&database, &*storage, 7).await;
    let now = SystemClock.now();
    let keep = Prune { before: subtract(now, DAY * 3), limit: 2, dead: false };
    assert_eq!(storage.prune(keep, now).await.unwrap(), PruneResult::default());
    // Three days later, by the time given to the storage.
    let later = add(now, DAY * 5);
    let prune = Prune { before: subtract(later, DAY * 3), limit: 2, dead: false };
    let pruned = storage.prune(prune, later).await.unwrap();
    assert_eq!((pruned.messages, pruned.executions), (7, 0), "a partition is dropped as a whole");
    assert_eq!(storage.counts(now).await.unwrap().total(MessageState::Done), 0);
    // The partition of today was dropped; a write goes to the default one and the next prune creates it again.
    finish(&database, &*storage, 3).await;
    assert_eq!(storage.counts(now).await.unwrap().total(MessageState::Done), 3);
    let page = storage.executions(ExecutionFilter::default(), PageRequest::first(5)).await.unwrap();
    assert!(page.rows.is_empty());
}

async fn history_that_is_kept_for_hours_is_pruned_row_by_row() {
    let database = TestSchema::new();
    let storage = database.open().await;
    finish(&database, &*storage, 7).await;
    let now = add(SystemClock.now(), Duration::from_millis(1));
    let prune = Prune { before: now, limit: 5, dead: false };
    assert_eq!(storage.prune(prune, now).await.unwrap().messages, 5);
    assert_eq!(storage.prune(prune, now).await.unwrap().messages, 2);
    assert_eq!(storage.prune(prune, now).await.unwrap().messages, 0);
}
