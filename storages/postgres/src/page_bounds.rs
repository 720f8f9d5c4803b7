//! Floor of a page: the id down to which it reads where no index fits its filter; see
//! [`punctual_columns::page_bounds`].

use punctual::inspect::{ExecutionFilter, MessageFilter};
use punctual::model::MessageState;
use punctual::uuid::Uuid;
use punctual_columns::page_bounds::{scans_executions, scans_messages};
use tokio_postgres::types::Type;

use crate::error::StorageError;
use crate::session::Session;
use crate::value::Param;

/// Returns the tables that a page of messages scans without knowing whether a row matches, and their id
/// columns.
pub(crate) fn scanned_by_messages(filter: &MessageFilter) -> Vec<(&'static str, &'static str)> {
    use MessageState::{Cancelled, Dead, Done, Pending, Running};
    let tables: [(&[MessageState], _); 3] = [
        (&[Pending, Running], ("message WHERE true", "id")),
        (&[Done, Cancelled], ("history WHERE state IS NOT NULL", "message")),
        (&[Dead], ("dead WHERE true", "id")),
    ];
    let scanned = tables.into_iter().filter(|(states, _)| scans_messages(filter, states));
    scanned.map(|(_, table)| table).collect()
}

/// Returns the same for a page of executions.
pub(crate) fn scanned_by_executions(filter: &ExecutionFilter) -> Vec<(&'static str, &'static str)> {
    let table = scans_executions(filter).then_some(("history WHERE id IS NOT NULL", "id"));
    table.into_iter().collect()
}

/// Builds the statement that finds the lowest id of a page.
pub(crate) fn floor_sql(
    schema: &str,
    tables: &[(&str, &str)],
    is_behind: bool,
    depth: usize,
) -> String {
    let parts = tables.iter().map(|(rows, id)| {
        let behind = if is_behind { format!(" AND {id} < $1") } else { String::new() };
        format!(
            "(SELECT {id} AS id FROM {schema}.{rows}{behind} ORDER BY {id} DESC OFFSET {depth} LIMIT 1)"
        )
    });
    let parts: Vec<String> = parts.collect();
    format!("SELECT id FROM ({}) AS f ORDER BY id DESC LIMIT 1", parts.join(" UNION ALL "))
}

/// Returns the id down to which a page reads; none when it may read all rows.
pub(crate) async fn floor(
    session: &Session<'_>,
    schema: &str,
    tables: &[(&str, &str)],
    after: Option<Uuid>,
    depth: usize,
) -> Result<Option<Uuid>, StorageError> {
    if tables.is_empty() {
        return Ok(None);
    }
    let text = floor_sql(schema, tables, after.is_some(), depth);
    let after: Vec<Uuid> = after.into_iter().collect();
    let params: Vec<Param<'_>> = after.iter().map(|id| (id as _, Type::UUID)).collect();
    let rows = session.query_text(&text, &params).await?;
    Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
}
