//! Single columns, decoded without a copy.

use punctual::uuid::Uuid;
use punctual::{Error, ErrorKind};

use crate::driver::Cells;
use crate::error::StorageResult;

/// Decodes the id of a row.
pub(crate) fn id_at(row: &impl Cells, column: usize) -> StorageResult<Uuid> {
    maybe_id_at(row, column)?.ok_or_else(|| damaged(0).into())
}

/// Decodes an id that may be NULL.
pub(crate) fn maybe_id_at(row: &impl Cells, column: usize) -> StorageResult<Option<Uuid>> {
    let Some(bytes) = row.cell(column)?.as_bytes_or_null()? else { return Ok(None) };
    Ok(Some(Uuid::from_slice(bytes).map_err(|_| damaged(bytes.len()))?))
}

/// Decodes a text.
pub(super) fn text_at(row: &impl Cells, column: usize) -> StorageResult<&str> {
    Ok(row.cell(column)?.as_str()?)
}

/// Decodes a text that may be NULL.
pub(super) fn maybe_text_at(row: &impl Cells, column: usize) -> StorageResult<Option<&str>> {
    Ok(row.cell(column)?.as_str_or_null()?)
}

fn damaged(len: usize) -> Error {
    let sentence = format!("a stored id has {len} bytes instead of 16");
    Error::new(ErrorKind::Corrupt, sentence)
}
