//! What the suite of all storages cannot know: the file, its neighbours, and commits that are shared.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a set-up that fails is a test that fails

#[cfg(feature = "sqlx")]
mod answers;
mod commits;
mod content;
mod doctor;
mod engine;
mod file;
mod fixture;
mod full;
mod history;
mod neighbours;
mod outbox;
mod people;
mod read_only;
#[cfg(feature = "sqlx")]
mod sqlx;
mod ties;
mod transactions;
