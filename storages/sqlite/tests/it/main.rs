//! Tests of this storage only: the file, other processes on it, and shared commits.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a set-up that fails is a test that fails

mod check;
mod concurrent_processes;
mod content;
#[cfg(feature = "sqlx")]
mod deduplication;
mod disk_full;
mod engine;
mod file;
mod fixture;
mod history;
mod outbox;
mod read_only;
mod relations;
mod shared_commits;
#[cfg(feature = "sqlx")]
mod sqlx;
mod transactions;
mod views;
