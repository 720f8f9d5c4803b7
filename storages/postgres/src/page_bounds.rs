//! Bounds of pages: how many rows a page reads where no index fits the filter. It reads the newest rows, and
//! some more if those do not fill it; the next page continues behind them. So a page costs the same, however
//! many rows do not match the filter.

use punctual::inspect::{ExecutionFilter, MessageFilter, PageResult};
use punctual::model::MessageState;
use punctual::uuid::Uuid;
use tokio_postgres::types::Type;

use crate::error::StorageError;
use crate::session::Session;
use crate::value::Param;

/// Numbers of rows of a table that are read: first, and at most.
pub(crate) const DEPTHS: [usize; 2] = [500, 4_000];

/// Returns the tables that a page of messages scans without knowing whether a row matches, and their id
/// columns.
pub(crate) fn scanned_by_messages(filter: &MessageFilter) -> Vec<(&'static str, &'static str)> {
    if filter.key.is_some() || filter.job.is_some() || filter.batch.is_some() {
        return Vec::new();
    }
    let wants = |state| filter.states.is_empty() || filter.states.contains(&state);
    let is_narrow = filter.queue.is_some() || filter.topic.is_some() || filter.planned;
    let walks = |some, other| {
        if is_narrow { wants(some) || wants(other) } else { wants(some) != wants(other) }
    };
    let mut tables = Vec::new();
    // Running messages have an index of their own, and so have planned one-time jobs.
    let is_indexed = filter.planned || filter.states == [MessageState::Running];
    if !is_indexed && walks(MessageState::Pending, MessageState::Running) {
        tables.push(("message WHERE true", "id"));
    }
    if walks(MessageState::Done, MessageState::Cancelled) {
        tables.push(("history WHERE state IS NOT NULL", "message"));
    }
    if walks(MessageState::Dead, MessageState::Dead) {
        tables.push(("dead WHERE true", "id"));
    }
    tables
}

/// Returns the same for a page of executions.
pub(crate) fn scanned_by_executions(filter: &ExecutionFilter) -> Vec<(&'static str, &'static str)> {
    let is_found = filter.message.is_some() || filter.job.is_some();
    if is_found || (filter.topic.is_none() && filter.endings.is_empty()) {
        return Vec::new();
    }
    vec![("history WHERE id IS NOT NULL", "id")]
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

/// Builds a page of at most `limit` rows from `limit + 1` rows; when it is the last one otherwise, the next
/// page begins at the floor.
pub(crate) fn paged<R, Id>(
    mut rows: Vec<R>,
    limit: usize,
    id: impl Fn(&R) -> Id,
    floor: Option<Id>,
) -> PageResult<R, Id> {
    let more = rows.len() > limit;
    rows.truncate(limit);
    PageResult { next: rows.last().filter(|_| more).map(id).or(floor), rows }
}

#[cfg(test)]
mod tests {
    use punctual::model::Queue;

    use super::*;

    #[test]
    fn only_filters_without_an_index_are_bounded() {
        let all = MessageFilter::default();
        assert!(scanned_by_messages(&all).is_empty());
        let of = |states: &[MessageState]| MessageFilter { states: states.to_vec(), ..all.clone() };
        assert!(scanned_by_messages(&of(&[MessageState::Running])).is_empty());
        assert!(scanned_by_messages(&of(&[MessageState::Dead])).is_empty());
        assert_eq!(scanned_by_messages(&of(&[MessageState::Cancelled])).len(), 1);
        let queue = MessageFilter { queue: Some(Queue::from("mail".to_owned())), ..all.clone() };
        assert_eq!(scanned_by_messages(&queue).len(), 3);
        let planned = |states: &[MessageState]| MessageFilter { planned: true, ..of(states) };
        assert!(
            scanned_by_messages(&planned(&[MessageState::Pending, MessageState::Running]))
                .is_empty()
        );
        assert_eq!(scanned_by_messages(&planned(&[])).len(), 2, "dead letters and the history");
    }
}
