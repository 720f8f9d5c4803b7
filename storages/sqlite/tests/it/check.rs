//! Checks of a file.

use punctual::backend::storage::{Command, CommandResult};
use punctual::{ErrorKind, Inspect as _, Storage as _};

use crate::fixture::{Fixture, at, claim, offer};

#[tokio::test]
async fn a_healthy_file_has_no_findings() {
    let f = Fixture::new();
    let storage = f.open().await;
    storage.enqueue(f.entries(50), at(0)).await.unwrap();
    claim(&storage, f.process(), 10).await;
    let check = storage.check().await.unwrap();
    assert_eq!(check.findings, Vec::<String>::new());
    assert!(check.sound == Some(true) && !check.is_locked);
    assert_eq!(check.schema_version, check.schema_known);
    assert_eq!((check.journal_mode.as_str(), check.page_bytes), ("wal", 4_096));
    assert!(check.pages > 10 && check.journal_bytes > 0);
}

#[tokio::test]
async fn a_writer_that_holds_the_lock_is_seen() {
    let f = Fixture::new();
    let storage = f.open().await;
    let lock = f.lock();
    assert!(storage.check().await.unwrap().is_locked);
    drop(lock);
    assert!(!storage.check().await.unwrap().is_locked);
}

#[tokio::test]
async fn rows_changed_by_hand_and_an_inconsistent_index_are_found() {
    let f = Fixture::new();
    let storage = f.open().await;
    storage.enqueue(f.entries(3), at(0)).await.unwrap();
    f.other_connection().execute("DELETE FROM punctual_message", []).unwrap();
    let check = storage.check().await.unwrap();
    assert_eq!(check.sound, Some(true));
    assert_eq!(check.findings.len(), 1);
    assert!(check.findings[0].contains("has the count 3"), "{}", check.findings[0]);
    let summary = storage.check_summary().await.unwrap();
    assert_eq!((summary.sound, summary.findings.len()), (None, 0), "it does not read rows");
    assert_eq!(summary.pages, check.pages);
}

#[tokio::test]
async fn a_damaged_row_blocks_no_other_and_can_be_deleted() {
    let f = Fixture::new();
    let storage = f.open().await;
    let (damaged, sound) = (f.message(), f.message());
    offer(&storage, damaged.clone()).await;
    offer(&storage, sound.clone()).await;
    let newer = "UPDATE punctual_message SET source = 99 WHERE id = ?";
    f.other_connection().execute(newer, [damaged.id.as_uuid().as_bytes()]).unwrap();
    let claimed = claim(&storage, f.process(), 9).await;
    assert_eq!(claimed.iter().map(|one| one.message.id).collect::<Vec<_>>(), [sound.id]);
    let error = storage.message(damaged.id).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    let deleted = storage.command(Command::Delete(damaged.id), at(0)).await.unwrap();
    assert_eq!(deleted, CommandResult::Applied(1));
}

#[tokio::test]
async fn a_damaged_file_is_found() {
    let f = Fixture::new();
    let storage = f.open().await;
    let message = f.message();
    offer(&storage, message.clone()).await;
    storage.close().await.unwrap();
    let damage = "PRAGMA writable_schema = ON;
        UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema
        WHERE name = 'punctual_process') WHERE name = 'punctual_message_key'";
    f.other_connection().execute_batch(damage).unwrap();
    let storage = f.open().await;
    let check = storage.check().await.unwrap();
    assert_eq!(check.sound, Some(false), "{check:?}");
    assert!(check.findings.iter().any(|finding| finding.contains("damaged")), "{check:?}");
    storage.command(Command::Delete(message.id), at(0)).await.unwrap();
}
