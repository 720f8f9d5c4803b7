//! Rows and what they hold: reading columns in one order, writing them in the same.

mod column;
mod execution;
mod message;
mod place;

#[cfg(feature = "sqlx")]
pub(crate) use execution::APPEND;
pub(crate) use execution::{Appending, EXECUTION_COLUMNS, bind, execution_of};
pub(crate) use message::{
    CLAIM_COLUMNS, FINISHED_COLUMNS, MESSAGE_COLUMNS, Table, claimed_of, reclaimed_of, record_of,
};
pub(crate) use place::{NEAR, first_id, id_of_finished, strayed};
