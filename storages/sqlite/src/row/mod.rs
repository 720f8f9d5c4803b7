//! Rows: decodes and encodes columns in one order.

mod column;
mod execution;
mod message;
mod time_order;

#[cfg(feature = "sqlx")]
pub(crate) use execution::APPEND;
pub(crate) use execution::{EXECUTION_COLUMNS, HistoryWriter, bind, execution_of};
pub(crate) use message::{
    CLAIM_COLUMNS, FINISHED_COLUMNS, MESSAGE_COLUMNS, Table, claimed_of, reclaimed_of, record_of,
};
pub(crate) use time_order::{NEAR, first_id, id_of_finished, strayed};
