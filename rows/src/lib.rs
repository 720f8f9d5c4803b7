//! Messages, executions and jobs as columns: what the SQL storages share, so that a row written by
//! one reads the same in another. It knows nothing of SQL, connections or transactions.
//!
//! - [`instant`]: microseconds since the epoch; due times are rounded up, so that nothing is early.
//! - [`code`]: the small numbers that stand for states, sources, reasons and endings.
//! - [`message`]: a message as columns, with all that is seldom there in one JSON column.
//! - [`execution`], [`job`]: the same for the history and for jobs.

pub mod code;
pub mod execution;
pub mod instant;
pub mod job;
pub mod message;
mod text;

pub use text::without_nul;
