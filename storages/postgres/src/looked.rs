//! How far one page looks where no index answers what is asked for: at the newest rows, and if those do not
//! fill it at some more; behind them the next page goes on. So a list costs the same however many rows there
//! are that it is not about.

use punctual::inspect::{ExecutionFilter, MessageFilter, Paged};
use punctual::model::State;
use punctual::uuid::Uuid;
use tokio_postgres::types::Type;

use crate::failure::Failure;
use crate::session::Session;
use crate::value::Param;

/// How many rows of a table are looked at: first, and at most.
pub(crate) const DEPTHS: [usize; 2] = [500, 4_000];

/// The tables a page of messages walks over without knowing that it will find something, and their ids.
pub(crate) fn walked_by_messages(filter: &MessageFilter) -> Vec<(&'static str, &'static str)> {
    if filter.key.is_some() || filter.job.is_some() || filter.batch.is_some() {
        return Vec::new();
    }
    let wants = |state| filter.states.is_empty() || filter.states.contains(&state);
    let is_narrow = filter.queue.is_some() || filter.topic.is_some();
    let walks = |some, other| {
        if is_narrow { wants(some) || wants(other) } else { wants(some) != wants(other) }
    };
    let mut tables = Vec::new();
    // What is running has an index of its own.
    if filter.states != [State::Running] && walks(State::Pending, State::Running) {
        tables.push(("message WHERE true", "id"));
    }
    if walks(State::Done, State::Cancelled) {
        tables.push(("history WHERE state IS NOT NULL", "message"));
    }
    if walks(State::Dead, State::Dead) {
        tables.push(("dead WHERE true", "id"));
    }
    tables
}

/// The same for a page of executions.
pub(crate) fn walked_by_executions(filter: &ExecutionFilter) -> Vec<(&'static str, &'static str)> {
    let is_found = filter.message.is_some() || filter.job.is_some();
    if is_found || (filter.topic.is_none() && filter.endings.is_empty()) {
        return Vec::new();
    }
    vec![("history WHERE id IS NOT NULL", "id")]
}

/// The statement that finds the id down to which a page looks.
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

/// The id down to which a page looks; nothing when it may look at all rows.
pub(crate) async fn floor(
    held: &Session<'_>,
    schema: &str,
    tables: &[(&str, &str)],
    after: Option<Uuid>,
    depth: usize,
) -> Result<Option<Uuid>, Failure> {
    if tables.is_empty() {
        return Ok(None);
    }
    let text = floor_sql(schema, tables, after.is_some(), depth);
    let after: Vec<Uuid> = after.into_iter().collect();
    let params: Vec<Param<'_>> = after.iter().map(|id| (id as _, Type::UUID)).collect();
    let rows = held.ask(&text, &params).await?;
    Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
}

/// A page of at most `limit` rows, when one more was asked for; it goes on at its floor when it is the last
/// otherwise.
pub(crate) fn paged<R, Id>(
    mut rows: Vec<R>,
    limit: usize,
    id: impl Fn(&R) -> Id,
    floor: Option<Id>,
) -> Paged<R, Id> {
    let more = rows.len() > limit;
    rows.truncate(limit);
    Paged { next: rows.last().filter(|_| more).map(id).or(floor), rows }
}

#[cfg(test)]
mod tests {
    use punctual::model::Queue;

    use super::*;

    #[test]
    fn only_what_no_index_answers_is_bounded() {
        let all = MessageFilter::default();
        assert!(walked_by_messages(&all).is_empty());
        let of = |states: &[State]| MessageFilter { states: states.to_vec(), ..all.clone() };
        assert!(walked_by_messages(&of(&[State::Running])).is_empty());
        assert!(walked_by_messages(&of(&[State::Dead])).is_empty());
        assert_eq!(walked_by_messages(&of(&[State::Cancelled])).len(), 1);
        let queue = MessageFilter { queue: Some(Queue::from("mail".to_owned())), ..all };
        assert_eq!(walked_by_messages(&queue).len(), 3);
    }
}
