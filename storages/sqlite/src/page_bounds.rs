//! Bounds of pages: how many rows a page reads where no index fits the filter. It reads the newest rows, and
//! some more if those do not fill it; the next page continues behind them. So a page costs the same, however
//! many rows do not match the filter.

use punctual::inspect::{ExecutionFilter, MessageFilter, PageRequest, PageResult};
use punctual::model::{ExecutionId, MessageId, MessageState};
use punctual::uuid::Uuid;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, params_from_iter};

use crate::error::StorageResult;
use crate::row::Table;

/// Numbers of rows of a table that are read: first, and at most.
pub(crate) const DEPTHS: [usize; 2] = [500, 4_000];

/// Returns the id down to which a page of messages reads; none when it may read all of them.
pub(crate) fn floor_of_messages(
    connection: &Connection,
    filter: &MessageFilter,
    page: PageRequest<MessageId>,
    depth: usize,
) -> StorageResult<Option<Uuid>> {
    let mut floor = None;
    for table in Table::ALL.into_iter().filter(|table| scans(filter, *table)) {
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
    let is_found = filter.message.is_some() || filter.job.is_some();
    if is_found || (filter.topic.is_none() && filter.endings.is_empty()) {
        return Ok(None);
    }
    let rows = "punctual_history WHERE ending IS NOT NULL";
    nth(connection, rows, "id", page.after.map(ExecutionId::as_uuid), depth)
}

/// Returns whether a filter scans rows of a table that do not match.
fn scans(filter: &MessageFilter, table: Table) -> bool {
    if filter.key.is_some() || filter.job.is_some() || filter.batch.is_some() {
        return false;
    }
    let wants = |state| filter.states.is_empty() || filter.states.contains(&state);
    let (some, all) = match table {
        // Running messages have an index of their own, and so have planned one-time jobs.
        Table::Message if filter.planned || filter.states == [MessageState::Running] => {
            return false;
        }
        Table::Message => (MessageState::Pending, MessageState::Running),
        Table::Dead => (MessageState::Dead, MessageState::Dead),
        Table::Finished => (MessageState::Done, MessageState::Cancelled),
    };
    let is_narrow = filter.queue.is_some() || filter.topic.is_some() || filter.planned;
    if is_narrow { wants(some) || wants(all) } else { wants(some) != wants(all) }
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

/// Makes the next page begin at the floor when this page is the last one otherwise.
pub(crate) fn with_floor<Row, Id>(
    paged: PageResult<Row, Id>,
    floor: Option<Id>,
) -> PageResult<Row, Id> {
    PageResult { next: paged.next.or(floor), rows: paged.rows }
}
