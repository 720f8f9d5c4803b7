//! File: what survives a restart, and which files are accepted.

use punctual::backend::policy::Verdict;
use punctual::model::MessageState;
use punctual::{ErrorKind, Inspect as _, Result, Storage as _};
use punctual_sqlite::{Durability, SqliteStorage};
use rusqlite::Connection;

use crate::fixture::{Fixture, at, claim, offer, rows_of, settle};

fn refused(opened: Result<SqliteStorage>) -> (ErrorKind, String) {
    let error = opened.unwrap_err();
    (error.kind(), error.to_string())
}

#[tokio::test]
async fn everything_is_still_there_after_it_was_opened_again() {
    let f = Fixture::new();
    let storage = f.open().await;
    let (pending, running, done) = (f.due(at(500)), f.message(), f.message());
    for message in [&done, &running] {
        offer(&storage, message.clone()).await;
        let claimed = claim(&storage, f.process(), 1).await.remove(0);
        if message.id == done.id {
            settle(&storage, vec![f.settlement(&claimed, Verdict::Done)]).await;
        }
    }
    offer(&storage, pending.clone()).await;
    let held = storage.message(running.id).await.unwrap().unwrap().lease.unwrap();
    storage.close().await.unwrap();
    let storage = f.open().await;
    let state = async |id| storage.message(id).await.unwrap().unwrap().state;
    assert_eq!(state(pending.id).await, MessageState::Pending);
    assert_eq!(state(running.id).await, MessageState::Running);
    assert_eq!(state(done.id).await, MessageState::Done);
    offer(&storage, f.message()).await;
    let next = claim(&storage, f.process(), 1).await.remove(0);
    assert!(next.lease.token > held.token, "tokens continue after the last one");
}

#[tokio::test]
async fn closing_copies_the_journal_and_refuses_calls_after_it() {
    let f = Fixture::new();
    let storage = f.open().await;
    offer(&storage, f.message()).await;
    storage.close().await.unwrap();
    assert!(!f.folder.path().join("punctual.db-wal").exists(), "only the file itself is left");
    storage.close().await.unwrap();
    let error = storage.enqueue(f.entries(1), at(0)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let error = storage.counts(at(0)).await.unwrap_err();
    assert!(error.to_string().contains("was closed"), "{error}");
    assert_eq!(rows_of(&f.other_connection(), "punctual_message"), 1);
}

#[tokio::test]
async fn calls_before_the_close_are_stored() {
    let f = Fixture::new();
    let storage = f.open().await;
    let calls = (0..20).map(|_| storage.enqueue(f.entries(1), at(0)));
    let (answers, closed) = tokio::join!(all(calls), storage.close());
    closed.unwrap();
    let stored = answers.iter().filter(|answer| answer.is_ok()).count();
    assert_eq!(rows_of(&f.other_connection(), "punctual_message"), stored);
}

async fn all<T>(calls: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await);
    }
    answers
}

#[tokio::test]
async fn an_empty_file_and_one_with_tables_of_an_application_are_accepted() {
    let f = Fixture::new();
    std::fs::write(f.path(), b"").unwrap();
    f.open().await.close().await.unwrap();

    let f = Fixture::new();
    let tables = "CREATE TABLE message (id, body); INSERT INTO message VALUES (1, 'mine');
                  CREATE TABLE job (name); CREATE VIEW executions AS SELECT 1; PRAGMA user_version = 7";
    f.other_connection().execute_batch(tables).unwrap();
    let storage = f.open().await;
    offer(&storage, f.message()).await;
    storage.close().await.unwrap();
    let other = f.other_connection();
    assert_eq!((rows_of(&other, "message"), rows_of(&other, "punctual_message")), (1, 1));
    let version: i64 = other.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    assert_eq!(version, 7, "what belongs to the application is left alone");
}

#[tokio::test]
async fn all_tables_and_indexes_have_our_prefix() {
    let f = Fixture::new();
    f.open().await.close().await.unwrap();
    let other = f.other_connection();
    let sql = "SELECT count(*) FROM sqlite_schema \
               WHERE name NOT LIKE 'punctual\\_%' ESCAPE '\\' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
    let others: i64 = other.query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(others, 0);
}

#[tokio::test]
async fn a_newer_schema_is_refused_with_both_versions_and_left_alone() {
    let f = Fixture::new();
    f.open().await.close().await.unwrap();
    let newer =
        "INSERT INTO punctual_migration (version, name, applied_at) VALUES (99, 'later', 0)";
    f.other_connection().execute(newer, []).unwrap();
    let (kind, text) = refused(f.builder().open().await);
    assert_eq!(kind, ErrorKind::Conflict);
    assert!(text.contains("version 99") && text.contains("update this program"), "{text}");
    assert_eq!(rows_of(&f.other_connection(), "punctual_message"), 0);
}

#[tokio::test]
async fn an_older_schema_is_brought_up_to_date_with_its_data() {
    let f = Fixture::new();
    let storage = f.open().await;
    offer(&storage, f.message()).await;
    storage.close().await.unwrap();
    // State after version 1: tables, no views, no documents, fewer indexes.
    let other = f.other_connection();
    let older = "DROP VIEW punctual_scheduled_jobs; DROP VIEW punctual_job_executions;
                 DROP VIEW punctual_messages; DROP TABLE punctual_document;
                 DROP INDEX punctual_message_planned; DROP INDEX punctual_dead_key; DROP INDEX punctual_dead_job; DROP INDEX punctual_history_key;
                 ALTER TABLE punctual_rate DROP COLUMN starts;
                 DELETE FROM punctual_migration WHERE version > 1";
    other.execute_batch(older).unwrap();
    f.open().await.close().await.unwrap();
    assert_eq!(rows_of(&other, "punctual_migration"), 6);
    assert_eq!(rows_of(&other, "punctual_document"), 0);
    assert_eq!(rows_of(&other, "punctual_messages"), 1);
}

// Migrations run by several processes at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_that_open_a_new_file_at_once_all_find_the_tables() {
    let f = Fixture::new();
    let opening: Vec<_> = (0..8).map(|_| tokio::spawn(f.builder().open())).collect();
    for opened in opening {
        offer(&opened.await.unwrap().unwrap(), f.message()).await;
    }
    assert_eq!(rows_of(&f.other_connection(), "punctual_message"), 8);
}

#[tokio::test]
async fn a_missing_folder_is_named() {
    let f = Fixture::new();
    let path = f.folder.path().join("not there").join("punctual.db");
    let (kind, text) = refused(SqliteStorage::open(&path).await);
    assert_eq!(kind, ErrorKind::NotFound);
    assert!(text.contains("not there") && text.contains("does not exist"), "{text}");
    let (kind, text) = refused(SqliteStorage::open(f.folder.path()).await);
    assert_eq!(kind, ErrorKind::Invalid);
    assert!(text.contains("is a folder"), "{text}");
}

#[tokio::test]
async fn a_file_that_is_not_a_database_is_refused_and_not_changed() {
    let f = Fixture::new();
    let letter = "Dear Ada,\n".repeat(1_000);
    std::fs::write(f.path(), &letter).unwrap();
    let (kind, text) = refused(f.builder().open().await);
    assert_eq!(kind, ErrorKind::Invalid);
    assert!(text.contains("not an SQLite database"), "{text}");
    assert_eq!(std::fs::read_to_string(f.path()).unwrap(), letter);
}

#[tokio::test]
async fn a_damaged_file_is_reported_as_corrupt() {
    let f = Fixture::new();
    let storage = f.open().await;
    storage.enqueue(f.entries(2_000), at(0)).await.unwrap();
    storage.close().await.unwrap();
    let mut bytes = std::fs::read(f.path()).unwrap();
    bytes[4_096..].fill(0x5a);
    std::fs::write(f.path(), bytes).unwrap();
    let error = match f.builder().open().await {
        Err(error) => error,
        Ok(storage) => storage.enqueue(f.entries(1), at(0)).await.unwrap_err(),
    };
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains("restore it from a backup"), "{error}");
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused_before_anything_is_opened() {
    for path in ["", ":memory:"] {
        let (kind, text) = refused(SqliteStorage::open(path).await);
        assert_eq!(kind, ErrorKind::Invalid);
        assert!(text.contains("MemoryStorage"), "{text}");
    }
    let f = Fixture::new();
    for count in [0, 1_000] {
        let (kind, text) = refused(f.builder().readers(count).open().await);
        assert_eq!(kind, ErrorKind::Invalid);
        assert!(text.contains(&count.to_string()), "{text}");
    }
    assert!(!f.path().exists());
}

#[tokio::test]
async fn the_journal_is_a_write_ahead_log_whatever_the_durability() {
    for durability in [Durability::Full, Durability::Normal] {
        let f = Fixture::new();
        let storage = f.builder().durability(durability).open().await.unwrap();
        offer(&storage, f.message()).await;
        let other: Connection = f.other_connection();
        let mode: String = other.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
        assert_eq!(mode, "wal");
    }
}

// Finding F12 of the security review.
#[cfg(unix)]
#[tokio::test]
async fn only_its_owner_may_read_what_is_stored() {
    use std::os::unix::fs::PermissionsExt as _;
    let f = Fixture::new();
    let storage = f.open().await;
    offer(&storage, f.message()).await;
    for name in ["punctual.db", "punctual.db-wal", "punctual.db-shm"] {
        let mode = std::fs::metadata(f.folder.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}: {mode:o}");
    }
    storage.close().await.unwrap();
}
