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
mod builder;
mod check;
mod commit_watch;
mod counts;
mod driver;
mod error;
mod estimate;
mod history_partitions;
mod inner;
mod inspect;
mod listener;
mod migrate;
mod notifications;
mod operations;
mod outbox;
mod page_bounds;
mod pending_notifications;
mod pool;
mod queries;
mod row;
mod session;
mod sql_parts;
#[cfg(feature = "sqlx")]
mod sqlx_outbox;
mod statements;
mod storage;
mod tls;
mod transaction;
mod value;
mod writer;

pub use tokio_postgres;

pub use self::builder::{PostgresBuilder, StatementPreparation};
pub use self::check::{LongTransaction, PostgresCheck};
pub use self::migrate::SCHEMA_VERSION;
pub use self::outbox::PostgresOutbox;
#[cfg(feature = "sqlx")]
pub use self::sqlx_outbox::PostgresSqlxOutbox;
pub use self::storage::PostgresStorage;
pub use self::transaction::PostgresTransaction;
