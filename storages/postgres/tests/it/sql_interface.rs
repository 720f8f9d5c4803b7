//! SQL interface: the enqueue function for other languages, and the views.

use std::time::Duration;

use punctual::backend::policy::Verdict;
use punctual::backend::storage::{ClaimedMessage, DeclareResult, JobCommandResult, Settlement};
use punctual::clock::add;
use punctual::inspect::Inspect;
use punctual::model::{
    Body, Ending, Execution, ExecutionId, Job, JobName, JobRecord, Message, MessageId,
    MessageState, Occurrence, Origin, Overrides,
};
use punctual::{Clock, Schedule, Storage, SystemClock};
use punctual_conformance::backend_tests::views;
use punctual_postgres::PostgresStorage;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use crate::schema::{TestSchema, settle};

punctual_conformance::cases! {
    a_message_of_sql_is_like_any_other,
    sql_has_the_rules_for_names_of_the_library,
    sql_returns_the_id_of_the_stored_duplicate,
    a_message_of_a_rolled_back_transaction_is_not_stored,
    the_views_have_the_documented_columns,
    jobs_have_the_same_values_in_every_storage,
    each_run_is_listed_and_deleted_with_its_job,
    a_claim_is_stored_with_its_message_and_no_table_has_locks,
}

async fn call(database: &TestSchema, arguments: &str) -> Result<Uuid, tokio_postgres::Error> {
    let text = format!("SELECT \"{}\".enqueue({arguments})", database.schema);
    Ok(database.client().await.query_one(&text, &[]).await?.get(0))
}

async fn a_message_of_sql_is_like_any_other() {
    let database = TestSchema::new();
    let storage = database.open().await;
    let id = call(
        &database,
        "'mail', '{\"to\": \"ada\"}', priority => 9, key => 'ada', headers => '{\"tenant\": \"acme\"}'",
    );
    let id = id.await.unwrap();
    assert_eq!(id.get_version_num(), 7);
    let later = call(&database, "'mail', due_at => now() + interval '1 hour'").await.unwrap();
    let raw = call(
        &database,
        "'mail', bytes => '\\x00ff', content_type => 'application/x', priority => 0",
    );
    raw.await.unwrap();
    let claimed = database.claim(&*storage, 9).await;
    assert_eq!(claimed.len(), 2, "the third one is due later");
    let message = &claimed[0].message;
    assert_eq!(message.id.as_uuid(), id);
    assert_eq!(message.headers.get("tenant"), Some("acme"));
    assert_eq!(message.body.read::<serde_json::Value>().unwrap()["to"], "ada");
    assert_eq!(claimed[1].message.body, Body::raw(vec![0, 255], "application/x"));
    let waiting = storage.message(MessageId::from_uuid(later)).await.unwrap().unwrap();
    assert_eq!(waiting.state, MessageState::Pending);
    assert_eq!(settle(&*storage, &claimed).await.len(), 2);
}

async fn sql_has_the_rules_for_names_of_the_library() {
    let database = TestSchema::new();
    let _storage = database.open().await;
    for arguments in [
        "''",
        "'  '",
        "'~relay/x'",
        "'punctual.command'",
        "E'two\\nlines'",
        "repeat('x', 201)",
        "'mail', queue => '~mine'",
        "'mail', key => ''",
        "'mail', priority => 10",
        "'mail', headers => '{\"punctual-x\": \"1\"}'",
        "'mail', headers => '{\"x\": 1}'",
        "'mail', '1', bytes => 'x'",
    ] {
        let error = call(&database, arguments).await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::INVALID_PARAMETER_VALUE), "{arguments}: {error}");
    }
    call(&database, "repeat('ü', 200)").await.unwrap();
    call(&database, "'  trimmed '").await.unwrap();
}

async fn sql_returns_the_id_of_the_stored_duplicate() {
    let database = TestSchema::new();
    let storage = database.open().await;
    let first = call(&database, "'mail', dedupe => 'order'").await.unwrap();
    assert_eq!(call(&database, "'mail', dedupe => 'order'").await.unwrap(), first);
    let again = format!("'mail', id => '{first}'");
    assert_eq!(call(&database, &again).await.unwrap(), first);
    let claimed = database.claim(&*storage, 9).await;
    assert_eq!(claimed.len(), 1);
    settle(&*storage, &claimed).await;
    assert_eq!(call(&database, &again).await.unwrap(), first, "done, and still known");
    assert!(database.claim(&*storage, 9).await.is_empty());
    assert_ne!(call(&database, "'mail', dedupe => 'order'").await.unwrap(), first);
}

async fn a_message_of_a_rolled_back_transaction_is_not_stored() {
    let database = TestSchema::new();
    let storage = database.open().await;
    let mut client = database.client().await;
    for commits in [false, true] {
        let transaction = client.transaction().await.unwrap();
        let text = format!("SELECT \"{}\".enqueue('mail', notify => true)", database.schema);
        transaction.execute(&text, &[]).await.unwrap();
        assert!(database.claim(&*storage, 9).await.is_empty(), "not before the commit");
        if commits {
            transaction.commit().await.unwrap();
        } else {
            transaction.rollback().await.unwrap();
        }
        assert_eq!(database.claim(&*storage, 9).await.len(), usize::from(commits));
    }
}

/// Declares a job in a storage without jobs.
async fn declare_report(storage: &PostgresStorage) -> JobName {
    let now = SystemClock.now();
    let job = Job::new("report", Schedule::cron("0 2 * * *", "Europe/Warsaw").unwrap()).unwrap();
    let job = Job { body: Body::json("hi").unwrap(), ..job };
    let name = job.name.clone();
    let record = JobRecord {
        declared: job.clone(),
        configured: None,
        overrides: Overrides::default(),
        job,
        origin: Origin::Declared,
        app: "tests".to_owned(),
        release: 0,
        cursor: Some(now),
        last_nominal: None,
        runs: 0,
        paused: None,
        retired: None,
        created_at: now,
        updated_at: now,
        version: 0,
    };
    assert_eq!(storage.declare(record, None, now).await.unwrap(), DeclareResult::Created);
    name
}

// spec: U-14
async fn the_views_have_the_documented_columns() {
    let database = TestSchema::new();
    let storage = database.open().await;
    declare_report(&storage).await;
    let client = database.client().await;
    let text = format!(
        "SELECT name, type, cron, zone, payload, status, next_run_at, last_run_at, last_duration_ms, \
         retry_count, retry_intervals, skip_if_running, lock_holder, locked_until, enabled, created_at, \
         updated_at FROM \"{}\".scheduled_jobs",
        database.schema
    );
    let row = client.query_one(&text, &[]).await.unwrap();
    let words: Vec<String> = (0..6).map(|column| row.get(column)).collect();
    assert_eq!(words, ["report", "Recurring", "0 2 * * *", "Europe/Warsaw", "\"hi\"", "Pending"]);
    assert!(row.get::<_, bool>("enabled") && row.get::<_, bool>("skip_if_running"));
}

// spec: U-14, T-36, T-75, U-34
async fn jobs_have_the_same_values_in_every_storage() {
    let database = TestSchema::new();
    let storage = database.open().await;
    views::fill(&*storage).await;
    let text = format!(
        "SELECT concat_ws('|', name, type, coalesce(cron, '-'), zone, payload, status, \
         coalesce(to_char(next_run_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"'), '-'), \
         coalesce(to_char(last_run_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"'), '-'), \
         coalesce(last_duration_ms::text, '-'), retry_count, skip_if_running::int, \
         (lock_holder IS NOT NULL)::int, enabled::int, coalesce(key, '-')) \
         FROM \"{}\".scheduled_jobs ORDER BY name COLLATE \"C\", coalesce(key, '')",
        database.schema
    );
    let rows = database.client().await.query(&text, &[]).await.unwrap();
    let lines: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(lines, views::SCHEDULED_JOBS);
}

/// Returns an attempt of a job that began a second late and took one second.
fn run_of(job: &JobName, claimed: &ClaimedMessage) -> Execution {
    let started_at = add(claimed.due_at, Duration::from_secs(1));
    Execution {
        id: ExecutionId::from_uuid(claimed.message.id.as_uuid()),
        message: Some(claimed.message.id),
        topic: claimed.message.topic.clone(),
        queue: claimed.message.queue.clone(),
        key: None,
        job: Some(job.clone()),
        nominal: None,
        source: claimed.message.source,
        attempt: claimed.attempt,
        attempts_max: Some(5),
        process: Some(claimed.lease.owner),
        due_at: claimed.due_at,
        started_at,
        ended_at: add(started_at, Duration::from_secs(1)),
        ending: Ending::Succeeded,
        note: Some("all well".into()),
        log: None,
    }
}

// spec: U-15
async fn each_run_is_listed_and_deleted_with_its_job() {
    let database = TestSchema::new();
    let storage = database.open().await;
    let job = declare_report(&storage).await;
    let nominal = SystemClock.now();
    let occurrence = Occurrence { job: job.clone(), nominal, schedule: None, misfire: None };
    let message = Message { occurrence: Some(occurrence), ..database.message() };
    crate::schema::enqueue(&*storage, message).await;
    let claimed = database.claim(&*storage, 1).await.remove(0);
    let run = Some(run_of(&job, &claimed).into());
    let settlement = Settlement::new(claimed.lease_ref(), Verdict::Done, run);
    storage.settle(vec![settlement], SystemClock.now()).await.unwrap();
    let text = format!(
        "SELECT concat_ws('|', job, started_at - scheduled_time, completed_at - started_at, status, \
         duration_ms, retry_attempt, error, message IS NOT NULL, topic) FROM \"{}\".job_executions",
        database.schema
    );
    let client = database.client().await;
    let line: String = client.query_one(&text, &[]).await.unwrap().get(0);
    assert_eq!(
        line,
        format!("report|00:00:01|00:00:01|Succeeded|1000|1|all well|t|{}", claimed.message.topic)
    );
    let removed = storage.remove_job(&job, 1, SystemClock.now()).await.unwrap();
    assert!(matches!(removed, JobCommandResult::Applied(_)), "{removed:?}");
    assert!(client.query(&text, &[]).await.unwrap().is_empty());
}

// spec: U-18
async fn a_claim_is_stored_with_its_message_and_no_table_has_locks() {
    let database = TestSchema::new();
    let storage = database.open().await;
    storage.enqueue(database.entries(1), SystemClock.now()).await.unwrap();
    let claimed = database.claim(&*storage, 1).await.remove(0);
    let client = database.client().await;
    let text = format!("SELECT owner, lease_until > now() FROM \"{}\".message", database.schema);
    let row = client.query_one(&text, &[]).await.unwrap();
    assert_eq!((row.get(0), row.get(1)), (claimed.lease.owner.as_uuid(), true));
    let text = "SELECT tablename::text FROM pg_tables WHERE schemaname = $1";
    let rows = client.query(text, &[&database.schema]).await.unwrap();
    let tables: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert!(tables.contains(&"message".to_owned()), "{tables:?}");
    assert!(!tables.iter().any(|table| table.contains("lock") || table.contains("lease")));
}
