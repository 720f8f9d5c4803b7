//! Rows: decodes and encodes columns in one order.

mod column;
mod execution;
mod message;
mod time_order;

pub(crate) use column::{id_at, maybe_id_at};
pub(crate) use execution::{EXECUTION_COLUMNS, HistoryWriter, execution_of, execution_values};
pub(crate) use message::{
    CLAIM_COLUMNS, FINISHED_COLUMNS, MESSAGE_COLUMNS, Table, claimed_of, finished_of, reclaimed_of,
    record_of,
};
pub(crate) use time_order::{NEAR, first_id, id_of_finished, strayed};
