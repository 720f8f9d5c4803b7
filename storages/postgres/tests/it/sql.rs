//! The SQL side: the function other languages enqueue with, and the views people read.

use punctual::inspect::Inspect;
use punctual::model::{Body, Job, JobRecord, MessageId, Origin, Overrides, State};
use punctual::storage::Declared;
use punctual::{Clock, Schedule, Storage, SystemClock};
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use crate::place::{Place, settle};

punctual_conformance::cases! {
    a_message_of_sql_is_like_any_other,
    sql_has_the_rules_for_names_of_the_library,
    sql_answers_duplicates_with_the_one_that_is_there,
    a_message_of_a_transaction_that_is_rolled_back_never_was,
    the_views_have_the_columns_people_know,
}

async fn call(place: &Place, arguments: &str) -> Result<Uuid, tokio_postgres::Error> {
    let text = format!("SELECT \"{}\".enqueue({arguments})", place.schema);
    Ok(place.client().await.query_one(&text, &[]).await?.get(0))
}

async fn a_message_of_sql_is_like_any_other() {
    let place = Place::new();
    let storage = place.open().await;
    let id = call(
        &place,
        "'mail', '{\"to\": \"ada\"}', priority => 9, key => 'ada', headers => '{\"tenant\": \"acme\"}'",
    );
    let id = id.await.unwrap();
    assert_eq!(id.get_version_num(), 7);
    let later = call(&place, "'mail', due_at => now() + interval '1 hour'").await.unwrap();
    let raw =
        call(&place, "'mail', bytes => '\\x00ff', content_type => 'application/x', priority => 0");
    raw.await.unwrap();
    let claimed = place.claim(&*storage, 9).await;
    assert_eq!(claimed.len(), 2, "the third one is due later");
    let message = &claimed[0].message;
    assert_eq!(message.id.as_uuid(), id);
    assert_eq!(message.headers.get("tenant"), Some("acme"));
    assert_eq!(message.body.read::<serde_json::Value>().unwrap()["to"], "ada");
    assert_eq!(claimed[1].message.body, Body::raw(vec![0, 255], "application/x"));
    let waiting = storage.message(MessageId::from_uuid(later)).await.unwrap().unwrap();
    assert_eq!(waiting.state, State::Pending);
    assert_eq!(settle(&*storage, &claimed).await.len(), 2);
}

async fn sql_has_the_rules_for_names_of_the_library() {
    let place = Place::new();
    let _storage = place.open().await;
    for arguments in [
        "''",
        "'  '",
        "'~relay/x'",
        "E'two\\nlines'",
        "repeat('x', 201)",
        "'mail', queue => '~mine'",
        "'mail', key => ''",
        "'mail', priority => 10",
        "'mail', headers => '{\"punctual-x\": \"1\"}'",
        "'mail', headers => '{\"x\": 1}'",
        "'mail', '1', bytes => 'x'",
    ] {
        let error = call(&place, arguments).await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::INVALID_PARAMETER_VALUE), "{arguments}: {error}");
    }
    call(&place, "repeat('ü', 200)").await.unwrap();
    call(&place, "'  trimmed '").await.unwrap();
}

async fn sql_answers_duplicates_with_the_one_that_is_there() {
    let place = Place::new();
    let storage = place.open().await;
    let first = call(&place, "'mail', dedupe => 'order'").await.unwrap();
    assert_eq!(call(&place, "'mail', dedupe => 'order'").await.unwrap(), first);
    let again = format!("'mail', id => '{first}'");
    assert_eq!(call(&place, &again).await.unwrap(), first);
    let claimed = place.claim(&*storage, 9).await;
    assert_eq!(claimed.len(), 1);
    settle(&*storage, &claimed).await;
    assert_eq!(call(&place, &again).await.unwrap(), first, "done, and still known");
    assert!(place.claim(&*storage, 9).await.is_empty());
    assert_ne!(call(&place, "'mail', dedupe => 'order'").await.unwrap(), first);
}

async fn a_message_of_a_transaction_that_is_rolled_back_never_was() {
    let place = Place::new();
    let storage = place.open().await;
    let mut client = place.client().await;
    for commits in [false, true] {
        let transaction = client.transaction().await.unwrap();
        let text = format!("SELECT \"{}\".enqueue('mail', notify => true)", place.schema);
        transaction.execute(&text, &[]).await.unwrap();
        assert!(place.claim(&*storage, 9).await.is_empty(), "not before the commit");
        if commits {
            transaction.commit().await.unwrap();
        } else {
            transaction.rollback().await.unwrap();
        }
        assert_eq!(place.claim(&*storage, 9).await.len(), usize::from(commits));
    }
}

// spec: U-14, U-15, U-18
async fn the_views_have_the_columns_people_know() {
    let place = Place::new();
    let storage = place.open().await;
    let now = SystemClock.now();
    let job = Job::new("report", Schedule::cron("0 2 * * *", "Europe/Warsaw").unwrap()).unwrap();
    let job = Job { body: Body::json("hi").unwrap(), ..job };
    let record = JobRecord {
        declared: job.clone(),
        configured: None,
        overrides: Overrides::default(),
        job,
        origin: Origin::Declared,
        app: "desk".to_owned(),
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
    assert_eq!(storage.declare(record, None, now).await.unwrap(), Declared::Created);
    let client = place.client().await;
    let text = format!(
        "SELECT name, type, cron, zone, payload, status, next_run_at, last_run_at, last_duration_ms, \
         retry_count, retry_intervals, skip_if_running, lock_holder, locked_until, enabled, created_at, \
         updated_at FROM \"{}\".scheduled_jobs",
        place.schema
    );
    let row = client.query_one(&text, &[]).await.unwrap();
    let words: Vec<String> = (0..6).map(|column| row.get(column)).collect();
    assert_eq!(words, ["report", "recurring", "0 2 * * *", "Europe/Warsaw", "\"hi\"", "Pending"]);
    assert!(row.get::<_, bool>("enabled") && row.get::<_, bool>("skip_if_running"));
    let text = format!(
        "SELECT id, job, scheduled_time, started_at, completed_at, status, duration_ms, retry_attempt, \
         error FROM \"{}\".job_executions ORDER BY scheduled_time DESC",
        place.schema
    );
    assert!(client.query(&text, &[]).await.unwrap().is_empty());
}
