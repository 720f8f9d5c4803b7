//! Punctual's storage on PostgreSQL: many processes, one database, no extension.
//!
//! [`PostgresStorage`] implements [`punctual::Storage`] and [`punctual::Inspect`]; stored messages survive the
//! end of every process and of the server. The README of this crate describes the tables, the required rights,
//! and poolers.

// The README is compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod address;
mod application_transaction;
mod batches;
mod broker_records;
mod builder;
mod check;
mod claim;
mod claim_cursor;
mod columns;
mod commands;
mod commit_watch;
mod copy;
mod counts;
mod deduplication;
mod documents;
mod driver;
mod enqueue;
mod error;
mod estimate;
mod fire;
mod groups;
mod history_partitions;
mod import;
mod inbox;
mod inner;
mod inspect;
mod jobs;
mod limits;
mod listener;
mod maintenance;
mod migrate;
mod notifications;
mod outbox;
mod page_bounds;
mod pool;
mod progress;
mod queries;
mod rates;
mod relations;
mod reserved_keys;
mod session;
mod settle;
mod settlements;
#[cfg(feature = "sqlx")]
mod sqlx_outbox;
mod statements;
mod storage;
mod tls;
mod topics;
mod transaction;
mod value;
mod waiting_queues;
mod writer;

pub use tokio_postgres;

pub use self::builder::{PostgresBuilder, Prepared};
pub use self::check::{LongTransaction, PostgresCheck};
pub use self::migrate::SCHEMA_VERSION;
pub use self::outbox::PostgresOutbox;
#[cfg(feature = "sqlx")]
pub use self::sqlx_outbox::PostgresSqlxOutbox;
pub use self::storage::PostgresStorage;
pub use self::transaction::PostgresTransaction;
