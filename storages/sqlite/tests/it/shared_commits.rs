//! Shared commits: many callers share one commit, and each gets its own result.

use std::sync::Arc;

use punctual::backend::storage::{EnqueueResult, Entry, JobCommandResult};
use punctual::model::{JobCommand, JobName, JobRecord};
use punctual::{ErrorKind, Inspect as _, Job, Schedule, Storage as _};

use crate::fixture::{Fixture, at, claim, job_record, offer, rows_of, settled_down};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_callers_share_commits() {
    let f = Arc::new(Fixture::new());
    let storage = Arc::new(f.open().await);
    let lock = f.lock();
    let tasks: Vec<_> = (0..500)
        .map(|_| {
            let (f, storage) = (Arc::clone(&f), Arc::clone(&storage));
            tokio::spawn(async move { offer(&storage, f.message()).await })
        })
        .collect();
    settled_down().await;
    drop(lock);
    for task in tasks {
        assert_eq!(task.await.unwrap(), EnqueueResult::Stored);
    }
    assert_eq!(rows_of(&f.other_connection(), "punctual_message"), 500);
    assert!(storage.commits() <= 5, "{} commits for 500 calls", storage.commits());
}

// No call returns before its commit.
#[tokio::test]
async fn a_call_returns_when_its_writes_are_visible_to_others() {
    let f = Fixture::new();
    let storage = f.open().await;
    let other = f.other_connection();
    for count in 1..50 {
        offer(&storage, f.message()).await;
        assert_eq!(rows_of(&other, "punctual_message"), count);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_stops_waiting_affects_no_other_and_claims_no_message() {
    let f = Fixture::new();
    let storage = Arc::new(f.open().await);
    let id = f.message();
    offer(&storage, id.clone()).await;
    let lock = f.lock();
    let (owner, stays) = (f.process(), Arc::clone(&storage));
    // The first call has begun and waits for the lock; the later ones wait for their turn.
    let first = tokio::spawn(async move { claim(&stays, owner, 0).await });
    settled_down().await;
    let (owner, gone) = (f.process(), Arc::clone(&storage));
    let given_up = tokio::spawn(async move { claim(&gone, owner, 9).await });
    settled_down().await;
    given_up.abort();
    assert!(given_up.await.unwrap_err().is_cancelled());
    drop(lock);
    assert_eq!(first.await.unwrap(), []);
    let claimed = claim(&storage, f.process(), 9).await;
    assert_eq!(claimed.len(), 1, "the message is not claimed, so the next caller gets it");
    assert_eq!((claimed[0].message.id, claimed[0].attempt), (id.id, 1));
}

fn job(name: &str) -> JobRecord {
    job_record(Job::new(name, Schedule::cron("0 2 * * *", "UTC").unwrap()).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_fails_takes_no_other_of_its_batch_with_it() {
    let f = Arc::new(Fixture::new());
    let storage = Arc::new(f.open().await);
    storage.declare(job("report"), None, at(0)).await.unwrap();
    let lock = f.lock();
    let before = storage.commits();
    let spawn_offer = || {
        let (f, storage) = (Arc::clone(&f), Arc::clone(&storage));
        tokio::spawn(async move { offer(&storage, f.message()).await })
    };
    let first = spawn_offer();
    settled_down().await;
    let earlier: Vec<_> = (0..5).map(|_| spawn_offer()).collect();
    let commanding = Arc::clone(&storage);
    let failing = tokio::spawn(async move {
        // A job cannot be renamed; that is only detected inside the transaction.
        let other = Job::new("other", Schedule::cron("0 2 * * *", "UTC").unwrap()).unwrap();
        let command =
            JobCommand::Override { overrides: Box::default(), job: Box::new(other), cursor: None };
        commanding.command_job(&JobName::new("report").unwrap(), command, 1, at(0)).await
    });
    let later: Vec<_> = (0..5).map(|_| spawn_offer()).collect();
    settled_down().await;
    drop(lock);
    assert_eq!(first.await.unwrap(), EnqueueResult::Stored);
    for task in earlier.into_iter().chain(later) {
        assert_eq!(task.await.unwrap(), EnqueueResult::Stored);
    }
    let error = failing.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert_eq!(storage.commits() - before, 2, "the eleven that waited shared one");
    assert_eq!(rows_of(&f.other_connection(), "punctual_message"), 11);
    let kept = storage.job(&JobName::new("report").unwrap()).await.unwrap().unwrap();
    assert_eq!((kept.version, kept.job.name.as_str()), (1, "report"));
    let pause = JobCommand::Pause { by: String::new(), reason: String::new(), until: None };
    let commanded =
        storage.command_job(&JobName::new("report").unwrap(), pause, 1, at(0)).await.unwrap();
    assert!(matches!(commanded, JobCommandResult::Applied(_)), "and the storage continues");
}

#[tokio::test]
async fn a_batch_is_stored_as_a_whole_in_one_commit() {
    let f = Fixture::new();
    let storage = f.open().await;
    let before = storage.commits();
    let entries: Vec<Entry> = f.entries(1_000);
    assert_eq!(storage.enqueue(entries, at(0)).await.unwrap(), vec![EnqueueResult::Stored; 1_000]);
    assert_eq!(storage.commits() - before, 1);
}
