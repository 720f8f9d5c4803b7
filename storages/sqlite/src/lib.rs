//! Punctual's embedded storage: one SQLite file, no server.
//!
//! [`SqliteStorage`] keeps every promise of [`punctual::Storage`] and [`punctual::Inspect`], across the
//! end of the process and, unless told otherwise, across a loss of power. Many callers share one commit;
//! several processes may share one file.

mod bells;
mod builder;
mod check;
mod commands;
mod connection;
mod documents;
mod due;
mod effects;
mod fault;
mod groups;
mod inbox;
mod inspect;
mod jobs;
mod looked;
mod marks;
mod migrate;
mod outbox;
mod patience;
#[cfg(test)]
mod plans;
mod rates;
mod readers;
mod reading;
mod row;
mod settings;
mod sqlite_storage;
#[cfg(feature = "sqlx")]
mod sqlx_outbox;
mod transaction;
mod upkeep;
mod watcher;
mod work;
mod writer;

pub use builder::{BUSY_PATIENCE_DEFAULT, Builder, READERS_DEFAULT};
pub use check::Check;
pub use outbox::SqliteOutbox;
pub use settings::Durability;
pub use sqlite_storage::SqliteStorage;
#[cfg(feature = "sqlx")]
pub use sqlx_outbox::SqliteSqlxOutbox;
pub use transaction::SqliteTransaction;

/// The driver, for transactions of your own; see [`SqliteOutbox`].
pub use rusqlite;

// The README is compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
