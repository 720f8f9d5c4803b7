//! Single columns, read without a copy.

use punctual::uuid::Uuid;
use punctual::{Error, ErrorKind};
use rusqlite::Row;

use crate::fault::Tried;

/// The id of a row.
pub(super) fn id_at(row: &Row<'_>, column: usize) -> Tried<Uuid> {
    maybe_id_at(row, column)?.ok_or_else(|| damaged(0).into())
}

/// An id that may be missing.
pub(super) fn maybe_id_at(row: &Row<'_>, column: usize) -> Tried<Option<Uuid>> {
    let Some(bytes) = row.get_ref(column)?.as_bytes_or_null()? else { return Ok(None) };
    Ok(Some(Uuid::from_slice(bytes).map_err(|_| damaged(bytes.len()))?))
}

/// A text of a row.
pub(super) fn text_at<'row>(row: &'row Row<'_>, column: usize) -> Tried<&'row str> {
    Ok(row.get_ref(column)?.as_str()?)
}

/// A text that may be missing.
pub(super) fn maybe_text_at<'row>(row: &'row Row<'_>, column: usize) -> Tried<Option<&'row str>> {
    Ok(row.get_ref(column)?.as_str_or_null()?)
}

fn damaged(length: usize) -> Error {
    let sentence = format!("a stored id has {length} bytes instead of 16");
    Error::new(ErrorKind::Corrupt, sentence)
}
