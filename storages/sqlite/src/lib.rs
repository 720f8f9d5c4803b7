//! Punctual's embedded storage: one SQLite file, no server.
//!
//! [`SqliteStorage`] implements [`punctual::Storage`] and [`punctual::Inspect`]; stored messages survive the
//! end of the process and, with the default durability, a loss of power. Concurrent calls share one commit;
//! several processes may share one file.

mod application_transaction;
mod builder;
mod busy_timeout;
mod check;
mod connection;
mod counts;
mod driver;
mod effects;
mod error;
mod inspect;
mod migrate;
mod notifications;
mod operations;
mod outbox;
mod page_bounds;
mod queries;
#[cfg(test)]
mod query_plans;
mod readers;
mod row;
#[cfg(feature = "sqlx")]
mod sqlx_outbox;
mod storage;
mod transaction;
mod value;
mod watcher;
mod writer;

pub use builder::{BUSY_TIMEOUT_DEFAULT, Durability, READERS_DEFAULT, SqliteBuilder};
pub use check::SqliteCheck;
pub use outbox::SqliteOutbox;
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
