//! Rows and what they hold: reading columns in one order, writing them in the same.

mod execution;
mod message;

pub(crate) use execution::{Appending, EXECUTION_COLUMNS, execution_of};
pub(crate) use message::{FINISHED_COLUMNS, MESSAGE_COLUMNS, Table, claimed_of, record_of};

use punctual::uuid::Uuid;
use rusqlite::Row;

use crate::fault::Tried;

/// An id that may be missing.
fn id_at(row: &Row<'_>, column: usize) -> Tried<Option<Uuid>> {
    let bytes = row.get_ref(column)?.as_bytes_or_null()?;
    Ok(bytes.map(|bytes| Uuid::from_slice(bytes).unwrap_or_default()))
}

fn text_at<'row>(row: &'row Row<'_>, column: usize) -> Tried<Option<&'row str>> {
    Ok(row.get_ref(column)?.as_str_or_null()?)
}
