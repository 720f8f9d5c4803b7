//! How far one page looks where no index answers what is asked for: at the newest rows, and if those do not
//! fill it at some more; behind them the next page goes on. So a list costs the same however many rows there
//! are that it is not about.

use punctual::inspect::{ExecutionFilter, MessageFilter, Page, Paged};
use punctual::model::{ExecutionId, MessageId, State};
use punctual::uuid::Uuid;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, params_from_iter};

use crate::fault::Tried;
use crate::row::Table;

/// How many rows of a table are looked at: first, and at most.
pub(crate) const DEPTHS: [usize; 2] = [500, 4_000];

/// The id down to which a page of messages looks; nothing when it may look at all of them.
pub(crate) fn floor_of_messages(
    connection: &Connection,
    filter: &MessageFilter,
    page: Page<MessageId>,
    depth: usize,
) -> Tried<Option<Uuid>> {
    let mut floor = None;
    for table in Table::ALL.into_iter().filter(|table| walks(filter, *table)) {
        let after = page.after.map(MessageId::as_uuid);
        floor = floor.max(nth(connection, table.rows(), table.id(), after, depth)?);
    }
    Ok(floor)
}

/// The id down to which a page of executions looks; nothing when it may look at all of them.
pub(crate) fn floor_of_executions(
    connection: &Connection,
    filter: &ExecutionFilter,
    page: Page<ExecutionId>,
    depth: usize,
) -> Tried<Option<Uuid>> {
    let is_found = filter.message.is_some() || filter.job.is_some();
    if is_found || (filter.topic.is_none() && filter.endings.is_empty()) {
        return Ok(None);
    }
    let rows = "punctual_history WHERE ending IS NOT NULL";
    nth(connection, rows, "id", page.after.map(ExecutionId::as_uuid), depth)
}

/// Whether a filter walks over rows of a table that it does not want.
fn walks(filter: &MessageFilter, table: Table) -> bool {
    if filter.key.is_some() || filter.job.is_some() || filter.batch.is_some() {
        return false;
    }
    let wants = |state| filter.states.is_empty() || filter.states.contains(&state);
    let (some, all) = match table {
        // What is running has an index of its own.
        Table::Message if filter.states == [State::Running] => return false,
        Table::Message => (State::Pending, State::Running),
        Table::Dead => (State::Dead, State::Dead),
        Table::Finished => (State::Done, State::Cancelled),
    };
    let is_narrow = filter.queue.is_some() || filter.topic.is_some();
    if is_narrow { wants(some) || wants(all) } else { wants(some) != wants(all) }
}

/// The id of the row so many behind the beginning of a page.
fn nth(
    connection: &Connection,
    rows: &str,
    id: &str,
    after: Option<Uuid>,
    depth: usize,
) -> Tried<Option<Uuid>> {
    let behind = if after.is_some() { format!(" AND {id} < ?1") } else { String::new() };
    let sql = format!("SELECT {id} FROM {rows}{behind} ORDER BY {id} DESC LIMIT 1 OFFSET {depth}");
    let mut statement = connection.prepare_cached(&sql)?;
    let values = after.map(|after| Value::Blob(after.as_bytes().to_vec()));
    let found: Option<[u8; 16]> =
        statement.query_row(params_from_iter(values), |row| row.get(0)).optional()?;
    Ok(found.map(Uuid::from_bytes))
}

/// A page that goes on at its floor when it is the last otherwise.
pub(crate) fn down_to<Row, Id>(paged: Paged<Row, Id>, floor: Option<Id>) -> Paged<Row, Id> {
    Paged { next: paged.next.or(floor), rows: paged.rows }
}
