//! Column codecs shared by the SQL storages: messages, executions and jobs as columns, so that all storages
//! encode them in the same way. The crate contains no SQL, connections or transactions.
//!
//! - [`instant`]: microseconds since the epoch; due times are rounded up, so that no message runs early.
//! - [`code`]: the small numbers that stand for states, sources, reasons and endings.
//! - [`message`]: a message as columns, with the rarely used fields in one JSON column.
//! - [`execution`], [`job`]: the same for the history and for jobs.
//! - [`page_bounds`]: which pages read a bounded number of rows, and where the next one begins.

pub mod code;
pub mod execution;
pub mod instant;
pub mod job;
pub mod message;
pub mod page_bounds;
mod text;

pub use text::without_nul;
