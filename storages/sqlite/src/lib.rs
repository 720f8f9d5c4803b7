//! Punctual's embedded storage: one SQLite file, no server.
//!
//! [`SqliteStorage`] implements [`punctual::Storage`] and [`punctual::Inspect`]; stored messages survive the
//! end of the process and, with the default durability, a loss of power. Concurrent calls share one commit;
//! several processes may share one file.

mod application_transaction;
mod builder;
mod busy_timeout;
mod check;
mod claim_cursor;
mod commands;
mod connection;
mod documents;
mod driver;
mod effects;
mod error;
mod groups;
mod inbox;
mod inspect;
mod jobs;
mod maintenance;
mod migrate;
mod next_due;
mod notifications;
mod operations;
mod outbox;
mod page_bounds;
mod queries;
#[cfg(test)]
mod query_plans;
mod rates;
mod readers;
mod row;
mod settings;
#[cfg(feature = "sqlx")]
mod sqlx_outbox;
mod storage;
mod transaction;
mod watcher;
mod writer;

pub use builder::{BUSY_TIMEOUT_DEFAULT, READERS_DEFAULT, SqliteBuilder};
pub use check::SqliteCheck;
pub use outbox::SqliteOutbox;
pub use settings::Durability;
#[cfg(feature = "sqlx")]
pub use sqlx_outbox::SqliteSqlxOutbox;
pub use storage::SqliteStorage;
pub use transaction::SqliteTransaction;

/// Driver, for transactions of the application; see [`SqliteOutbox`].
pub use rusqlite;

// The README is compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
