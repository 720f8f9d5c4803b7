//! Floor of a page: the id down to which it reads where no index fits its filter; see
//! [`punctual_columns::page_bounds`].

use punctual::inspect::{ExecutionFilter, MessageFilter, PageRequest};
use punctual::model::{ExecutionId, MessageId};
use punctual::uuid::Uuid;
use punctual_columns::page_bounds::{scans_executions, scans_messages};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, params_from_iter};

use crate::error::StorageResult;
use crate::row::Table;

/// Returns the id down to which a page of messages reads; none when it may read all of them.
pub(crate) fn floor_of_messages(
    connection: &Connection,
    filter: &MessageFilter,
    page: PageRequest<MessageId>,
    depth: usize,
) -> StorageResult<Option<Uuid>> {
    let mut floor = None;
    for table in Table::ALL.into_iter().filter(|table| scans_messages(filter, table.states())) {
        let after = page.after.map(MessageId::as_uuid);
        floor = floor.max(nth(connection, table.rows(), table.id(), after, depth)?);
    }
    Ok(floor)
}

/// Returns the id down to which a page of executions reads; none when it may read all of them.
pub(crate) fn floor_of_executions(
    connection: &Connection,
    filter: &ExecutionFilter,
    page: PageRequest<ExecutionId>,
    depth: usize,
) -> StorageResult<Option<Uuid>> {
    if !scans_executions(filter) {
        return Ok(None);
    }
    let rows = "punctual_history WHERE ending IS NOT NULL";
    nth(connection, rows, "id", page.after.map(ExecutionId::as_uuid), depth)
}

/// Returns the id of the row at a distance behind the beginning of a page.
fn nth(
    connection: &Connection,
    rows: &str,
    id: &str,
    after: Option<Uuid>,
    depth: usize,
) -> StorageResult<Option<Uuid>> {
    let behind = if after.is_some() { format!(" AND {id} < ?1") } else { String::new() };
    let sql = format!("SELECT {id} FROM {rows}{behind} ORDER BY {id} DESC LIMIT 1 OFFSET {depth}");
    let mut statement = connection.prepare_cached(&sql)?;
    let values = after.map(|after| Value::Blob(after.as_bytes().to_vec()));
    let found: Option<[u8; 16]> =
        statement.query_row(params_from_iter(values), |row| row.get(0)).optional()?;
    Ok(found.map(Uuid::from_bytes))
}
