//! Rows and what they hold: reading columns in one order, writing them in the same.

mod column;
mod execution;
mod message;

#[cfg(feature = "sqlx")]
pub(crate) use execution::INSERT as APPEND;
pub(crate) use execution::{Appending, EXECUTION_COLUMNS, execution_of};
pub(crate) use message::{FINISHED_COLUMNS, MESSAGE_COLUMNS, Table, claimed_of, record_of};
