//! Tests of commands on a storage without a server.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use punctual::Punctual;
use punctual_sqlite::SqliteStorage;
use serde_json::Value;

fn punctual(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.args(args).current_dir(folder).stdin(Stdio::null());
    for name in ["PUNCTUAL_SERVER", "PUNCTUAL_TOKEN"] {
        command.env_remove(name);
    }
    command.env("PUNCTUAL_STORAGE", "sqlite:a.db").env("XDG_CONFIG_HOME", folder);
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Runs a command that must succeed and returns its standard output.
fn printed(folder: &Path, args: &[&str]) -> String {
    let output = punctual(folder, args);
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn object(folder: &Path, args: &[&str]) -> Value {
    serde_json::from_str(&printed(folder, &[args, &["--json"]].concat())).unwrap()
}

/// Runs a command that must fail and returns its exit code and standard error.
fn refused(folder: &Path, args: &[&str]) -> (i32, String) {
    let output = punctual(folder, args);
    (output.status.code().unwrap(), text(&output.stderr))
}

fn prepared() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    assert!(printed(folder.path(), &["migrate"]).contains("is up to date"));
    folder
}

#[test]
fn jobs_are_managed_without_a_server() {
    let folder = prepared();
    let folder = folder.path();
    let create = [
        "jobs",
        "create",
        "nightly",
        "--cron",
        "0 2 * * *",
        "--zone",
        "Europe/Warsaw",
        "--topic",
        "close",
    ];
    let output = printed(folder, &create);
    assert!(
        output.starts_with("Created nightly: ") && output.contains("It runs next at "),
        "{output}"
    );
    assert_eq!(refused(folder, &create).0, 4, "the job exists already");
    assert_eq!(object(folder, &["jobs", "show", "nightly"])["zone"], "Europe/Warsaw");
    assert!(printed(folder, &["jobs", "next", "nightly", "--count", "3"]).lines().count() == 4);
    let paused = printed(
        folder,
        &["jobs", "pause", "nightly", "--reason", "the disk is full", "--for", "2h"],
    );
    assert!(paused.starts_with("nightly is paused until 2"), "{paused}");
    assert!(printed(folder, &["jobs", "list"]).contains("paused"));
    assert!(printed(folder, &["jobs", "resume", "nightly"]).contains("runs next at"));
    assert!(
        printed(folder, &["jobs", "skip", "nightly"])
            .starts_with("nightly skips the occurrence of 2")
    );
    let edited = printed(folder, &["jobs", "edit", "nightly", "--cron", "0 3 * * *"]);
    assert!(edited.contains("`punctual jobs reset nightly` removes the override"), "{edited}");
    assert!(printed(folder, &["jobs", "reset", "nightly"]).contains("has its defined settings"));
    let message =
        object(folder, &["jobs", "trigger", "nightly"])["message"].as_str().unwrap().to_owned();
    assert!(printed(folder, &["messages", "show", &message]).contains("nightly"));
    let planned = printed(folder, &["jobs", "backfill", "nightly", "--from", "-3d", "--dry-run"]);
    assert!(planned.contains("of nightly would run"), "{planned}");
    assert_eq!(refused(folder, &["jobs", "delete", "nightly"]).0, 4, "not confirmed");
    assert_eq!(printed(folder, &["jobs", "delete", "nightly", "--yes"]), "Deleted nightly.\n");
    printed(folder, &["jobs", "create", "often", "--every", "10s", "--topic", "close"]);
    let shown = printed(folder, &["jobs", "show", "often"]);
    let schedule = shown.lines().find(|line| line.starts_with("schedule ")).unwrap();
    assert!(schedule.ends_with("  every 10s"), "{schedule}");
    let (code, output) = refused(folder, &["jobs", "show", "nightly"]);
    assert!(code == 3 && output.contains("`punctual jobs list` lists"), "{output}");
}

#[test]
fn messages_are_listed_explained_moved_and_cancelled() {
    let folder = prepared();
    let folder = folder.path();
    let publish =
        ["messages", "publish", "mail", "{\"to\":\"ada\"}", "--key", "ada", "--delay", "1h"];
    let id = printed(folder, &publish).trim().to_owned();
    assert!(printed(folder, &["messages", "list", "--topic", "mail"]).contains(&id));
    assert_eq!(printed(folder, &["messages", "list", "--state", "pending", "--count"]), "1\n");
    assert_eq!(object(folder, &["messages", "why", &id])["word"], "waiting_until");
    let shown = printed(folder, &["messages", "show", &id]);
    assert!(shown.contains("\"to\": \"ada\"") && shown.contains("scheduled"), "{shown}");
    let moved = printed(folder, &["messages", "reschedule", &id, "--delay", "2h"]);
    assert_eq!(moved, "1 message rescheduled, due in 2h.\n");
    let moved = printed(folder, &["messages", "reassign", &id, "--to", "slow", "--priority", "9"]);
    assert_eq!(moved, "1 message reassigned to the queue slow with priority 9.\n");
    assert!(printed(folder, &["messages", "show", &id]).contains("slow"));
    let (code, output) = refused(folder, &["messages", "reassign", &id]);
    assert!(code == 2 && output.contains("--to"), "{code} {output}");
    let (code, output) = refused(folder, &["messages", "reassign", &id, "--priority", "12"]);
    assert!(code == 2 && output.contains("12"), "{code} {output}");
    let all = ["messages", "reassign", "--state", "pending", "--priority", "1"];
    assert_eq!(
        printed(folder, &[&all[..], &["--dry-run"]].concat()),
        "This would reassign 1 message. Nothing was changed.\n"
    );
    assert_eq!(
        printed(folder, &[&all[..], &["--yes"]].concat()),
        "1 message reassigned with priority 1.\n"
    );
    let (code, output) = refused(folder, &["messages", "reassign", "--state", "dead", "--to", "x"]);
    assert!(code == 2 && output.contains("pending"), "{code} {output}");
    assert_eq!(printed(folder, &["messages", "cancel", &id]), "1 message cancelled.\n");
    let (code, output) = refused(folder, &["messages", "cancel", &id]);
    assert_eq!(code, 4, "{output}");
    let (code, output) = refused(folder, &["messages", "cancel", &id, &id, "--yes"]);
    assert_eq!(code, 4, "it is an error when no message could be cancelled: {output}");
    assert_eq!(printed(folder, &["messages", "delete", &id, "--yes"]), "1 message deleted.\n");
    assert_eq!(refused(folder, &["messages", "show", &id]).0, 3);
    assert_eq!(refused(folder, &["messages", "show", "x"]).0, 2);
    let (code, output) = refused(folder, &["messages", "cancel"]);
    assert!(code == 2 && output.contains("hint: give ids, or a filter"), "{code} {output}");
}

#[test]
fn a_queue_is_paused_and_purged() {
    let folder = prepared();
    let folder = folder.path();
    for _ in 0..3 {
        printed(folder, &["messages", "publish", "t", "1", "--queue", "slow"]);
    }
    assert!(printed(folder, &["queues", "list"]).contains("slow"));
    printed(folder, &["queues", "pause", "slow", "--reason", "too many"]);
    assert!(printed(folder, &["queues", "show", "slow"]).contains("too many"));
    printed(folder, &["queues", "resume", "slow"]);
    let (code, output) = refused(folder, &["queues", "purge", "slow"]);
    assert!(code == 4 && output.contains("Purge 3 messages"), "{code} {output}");
    assert_eq!(
        printed(folder, &["queues", "purge", "slow", "--dry-run"]),
        "This would purge 3 messages. Nothing was changed.\n"
    );
    assert_eq!(printed(folder, &["queues", "purge", "slow", "--yes"]), "3 messages purged.\n");
    if cfg!(feature = "top") {
        assert!(printed(folder, &["top"]).contains("queue"));
    }
    assert!(punctual(folder, &["dead", "redrive"]).status.code() == Some(2));
    let pruned = printed(folder, &["prune", "--older-than", "1h", "--yes"]);
    assert_eq!(pruned, "Deleted 0 messages and 0 executions.\n");
}

#[test]
fn a_missing_storage_file_is_not_created() {
    let folder = tempfile::tempdir().unwrap();
    let (code, output) = refused(folder.path(), &["jobs", "list"]);
    assert_eq!(code, 3, "{output}");
    assert!(!folder.path().join("a.db").exists());
}

// spec: T-75
#[test]
fn planned_one_time_jobs_are_controlled_by_name_and_key() {
    let folder = prepared();
    let folder = folder.path();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let storage = SqliteStorage::open(folder.join("a.db")).await.unwrap();
        let storage = std::sync::Arc::new(storage);
        let punctual = Punctual::builder().storage(storage.clone()).build().unwrap();
        for key in ["order-7", "order-8"] {
            punctual
                .jobs()
                .once("remind")
                .after(Duration::from_secs(86_400))
                .key(key)
                .await
                .unwrap();
        }
        punctual.jobs().once("invoice").after(Duration::from_secs(86_400)).await.unwrap();
        storage.close().await.unwrap();
    });
    let pause = ["jobs", "planned", "pause", "remind", "--key", "order-7", "--reason", "outage"];
    let output = printed(folder, &pause);
    assert_eq!(output, "1 one-time job of remind paused until resumed.\n");
    let listed = printed(folder, &["jobs", "planned", "list", "remind"]);
    assert!(listed.contains("order-8") && listed.contains(": outage"), "{listed}");
    let all = printed(folder, &["jobs", "planned", "list"]);
    assert!(all.contains("remind") && all.contains("order-8") && all.contains("invoice"), "{all}");
    let about = printed(folder, &["jobs", "planned", "list", "--key", "order-7"]);
    assert!(about.contains("order-7") && !about.contains("order-8"), "{about}");
    let (code, words) = refused(folder, &["jobs", "show", "remind"]);
    assert!(code == 3 && words.contains("2 one-time jobs of this name are planned"), "{words}");
    let output = printed(folder, &["jobs", "planned", "resume", "remind"]);
    let resumed = "1 one-time job of remind resumed. 1 unchanged or running.\n";
    assert_eq!(output, resumed);
    let output = printed(folder, &["jobs", "planned", "trigger", "remind", "--key", "order-7"]);
    assert_eq!(output, "1 one-time job of remind triggered.\n");
    let output = printed(folder, &["jobs", "planned", "cancel", "remind", "--key", "order-8"]);
    assert_eq!(output, "1 one-time job of remind with key order-8 cancelled.\n");
    let (code, words) = refused(folder, &["jobs", "planned", "trigger", "nothing"]);
    assert_eq!(code, 3, "{words}");
}
