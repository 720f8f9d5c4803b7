//! Pages of lists: the number of rows that the server reads for a page does not grow with the tables.

use std::sync::Arc;

use punctual::inspect::{ExecutionFilter, MessageFilter, PageRequest};
use punctual::jiff::Timestamp;
use punctual::model::{JobName, Key, Limit, MessageState, Queue, Relations, Topic};
use punctual::{Clock, Inspect, Message, Storage, SystemClock};
use tokio_postgres::Client;

use crate::schema::{TestSchema, eventually};

punctual_conformance::cases! {
    lists_read_a_bounded_number_of_rows_for_every_filter,
    a_page_without_matches_continues_where_it_stopped,
    an_estimate_reads_a_bounded_number_of_rows_and_is_close,
}

/// Number of rows of each of the three tables.
const ROWS: i64 = 60_000;

/// Inserts rows of one queue and topic, one of each kind for each number.
async fn fill(client: &Client, schema: &str) {
    let id = |sign: &str| {
        format!("(lpad(to_hex(n), 12, '0') || '70008000' || '{sign}' || '00000000000')::uuid")
    };
    let (alive, dead, done, ran) = (id("1"), id("2"), id("3"), id("4"));
    let text = format!(
        "SET synchronous_commit = off;
        INSERT INTO \"{schema}\".message (id, queue, topic, priority, source, due_at, planned_at, created_at, body)
          SELECT {alive}, 'default', 'mail', 5, 0, now() + interval '1 day', now(), now(), '' FROM generate_series(1, {ROWS}) n;
        INSERT INTO \"{schema}\".dead (id, queue, topic, priority, source, exclusive, due_at, planned_at, created_at, ended_at,
            attempt, crashes, snoozes, body)
          SELECT {dead}, 'default', 'mail', 5, 0, false, now(), now(), now(), now(), 1, 0, 0, '' FROM generate_series(1, {ROWS}) n;
        INSERT INTO \"{schema}\".history (id, message, state, ending, ended_at, started_at, queue, topic, source, attempt, due_at,
            priority, planned_at, created_at, exclusive, crashes, snoozes, body)
          SELECT {ran}, {done}, 2, 0, now(), now(), 'default', 'mail', 0, 1, now(), 5, now(), now(), false, 0, 0, ''
          FROM generate_series(1, {ROWS}) n;"
    );
    client.batch_execute(&text).await.unwrap();
    for table in ["message", "dead", "history"] {
        client.batch_execute(&format!("ANALYZE \"{schema}\".{table}")).await.unwrap();
    }
}

/// Returns how many rows of the three tables were read, by the statistics that sessions have reported.
async fn read(client: &Client, schema: &str) -> i64 {
    let text = "SELECT coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0)::int8 FROM pg_stat_all_tables \
                WHERE schemaname = $1 AND relname ~ '^(message|dead|history)'";
    client.query_one(text, &[&schema]).await.unwrap().get(0)
}

async fn lists_read_a_bounded_number_of_rows_for_every_filter() {
    let database = TestSchema::new();
    let storage = database.open().await;
    let client = database.client().await;
    fill(&client, &database.schema).await;
    // The reads of the inserts are reported before the first list.
    client.batch_execute("SELECT pg_stat_force_next_flush()").await.unwrap();
    let before = read(&client, &database.schema).await;
    let all = MessageFilter::default;
    let topic = Some(Topic::new("nothing").unwrap());
    let filters = [
        all(),
        MessageFilter { states: vec![MessageState::Running], ..all() },
        MessageFilter { states: vec![MessageState::Cancelled], ..all() },
        MessageFilter { topic: topic.clone(), ..all() },
        MessageFilter { queue: Some(Queue::from("nowhere".to_owned())), ..all() },
        MessageFilter { key: Some(Key::new("unknown").unwrap()), ..all() },
        MessageFilter { job: Some(JobName::new("nightly").unwrap()), ..all() },
        MessageFilter { planned: true, ..all() },
        MessageFilter {
            planned: true,
            states: vec![MessageState::Pending, MessageState::Running],
            ..all()
        },
    ];
    for filter in filters {
        storage.messages(filter, PageRequest::first(50)).await.unwrap();
    }
    let executions = ExecutionFilter { topic, ..ExecutionFilter::default() };
    storage.executions(executions, PageRequest::first(50)).await.unwrap();
    // A session reports the rest when it ends.
    drop(storage);
    let is_reported = || async { read(&client, &database.schema).await - before > 20_000 };
    eventually("the sessions report their reads", is_reported).await;
    let rows = read(&client, &database.schema).await - before;
    assert!(rows < 3 * ROWS, "{rows} rows were read; one full scan is {}", 3 * ROWS);
}

async fn a_page_without_matches_continues_where_it_stopped() {
    let database = TestSchema::new();
    let storage = database.open().await;
    let client = database.client().await;
    fill(&client, &database.schema).await;
    let rare = format!(
        "UPDATE \"{0}\".message SET topic = 'rare' WHERE id IN (SELECT id FROM \"{0}\".message ORDER BY id LIMIT 3)",
        database.schema
    );
    client.batch_execute(&rare).await.unwrap();
    let filter =
        MessageFilter { topic: Some(Topic::new("rare").unwrap()), ..MessageFilter::default() };
    let (mut found, mut pages, mut page) = (Vec::new(), 0, PageRequest::first(50));
    loop {
        let paged = storage.messages(filter.clone(), page).await.unwrap();
        found.extend(paged.rows.into_iter().map(|record| record.message.id));
        pages += 1;
        assert!(pages < 30, "it never ends");
        match paged.next {
            Some(next) => page = PageRequest::after(next, 50),
            None => break,
        }
    }
    found.dedup();
    assert_eq!(found.len(), 3);
    assert!(pages > 3, "{pages} pages for {ROWS} rows");
}

async fn an_estimate_reads_a_bounded_number_of_rows_and_is_close() {
    let database = TestSchema::new();
    let storage = database.open().await;
    let client = database.client().await;
    fill(&client, &database.schema).await;
    storage.enqueue(database.entries(2), SystemClock.now()).await.unwrap();
    let of = |name: &str| Queue::from(name.to_owned());
    let due_at: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let few = Message { queue: of("few"), due_at, ..database.message() };
    let limit = Limit { name: Key::new("mail").unwrap(), running_max: Some(1), rate: None };
    let relations = Some(Arc::new(Relations { limit: Some(limit), ..Relations::default() }));
    let limited = Message { queue: of("few"), relations, ..database.message() };
    storage.enqueue(vec![few.into(), limited.into()], SystemClock.now()).await.unwrap();
    assert_eq!(database.claim(&*storage, 2).await.len(), 2);
    client.batch_execute("SELECT pg_stat_force_next_flush()").await.unwrap();
    let before = read(&client, &database.schema).await;

    let near = storage.estimate(SystemClock.now()).await.unwrap();
    let rows = u64::try_from(ROWS).unwrap();
    assert!(near.is_estimate);
    for state in [MessageState::Pending, MessageState::Dead, MessageState::Done] {
        let count = near.messages[&(Queue::default(), state)];
        assert!(count.abs_diff(rows) < rows / 5, "{count} {state:?} of {rows}");
    }
    // Few messages are counted exactly, however many others exist.
    assert_eq!(near.messages[&(Queue::default(), MessageState::Running)], 2);
    assert_eq!(near.messages[&(of("few"), MessageState::Pending)], 2);
    assert_eq!(near.oldest_due, Some(due_at));
    assert_eq!(near.stale, 0);

    drop(storage);
    let is_reported = || async { read(&client, &database.schema).await - before > 20_000 };
    eventually("the sessions report their reads", is_reported).await;
    let read = read(&client, &database.schema).await - before;
    assert!(read < 2 * ROWS, "{read} rows were read; counting everything is {}", 3 * ROWS);
}
