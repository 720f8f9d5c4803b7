//! Single columns, decoded without a copy.

use punctual::uuid::Uuid;
use punctual::{Error, ErrorKind};
use rusqlite::Row;

use crate::error::StorageResult;

/// Decodes the id of a row.
pub(super) fn id_at(row: &Row<'_>, column: usize) -> StorageResult<Uuid> {
    maybe_id_at(row, column)?.ok_or_else(|| damaged(0).into())
}

/// Decodes an id that may be NULL.
pub(super) fn maybe_id_at(row: &Row<'_>, column: usize) -> StorageResult<Option<Uuid>> {
    let Some(bytes) = row.get_ref(column)?.as_bytes_or_null()? else { return Ok(None) };
    Ok(Some(Uuid::from_slice(bytes).map_err(|_| damaged(bytes.len()))?))
}

/// Decodes a text.
pub(super) fn text_at<'row>(row: &'row Row<'_>, column: usize) -> StorageResult<&'row str> {
    Ok(row.get_ref(column)?.as_str()?)
}

/// Decodes a text that may be NULL.
pub(super) fn maybe_text_at<'row>(
    row: &'row Row<'_>,
    column: usize,
) -> StorageResult<Option<&'row str>> {
    Ok(row.get_ref(column)?.as_str_or_null()?)
}

fn damaged(len: usize) -> Error {
    let sentence = format!("a stored id has {len} bytes instead of 16");
    Error::new(ErrorKind::Corrupt, sentence)
}
