//! Bounds of pages: how many rows a page reads where no index fits the filter. It reads the newest rows, and
//! some more if those do not fill it; the next page continues behind them. So a page costs the same, however
//! many rows do not match the filter. Each storage finds the id down to which a page reads, its floor.

use punctual::inspect::{ExecutionFilter, MessageFilter, PageResult};
use punctual::model::MessageState;

/// Numbers of rows of a table that are read: first, and at most.
pub const DEPTHS: [usize; 2] = [500, 4_000];

/// Returns whether a page of messages scans a table, which contains messages in these states, without knowing
/// whether a row matches.
pub fn scans_messages(filter: &MessageFilter, states: &[MessageState]) -> bool {
    if filter.key.is_some() || filter.job.is_some() || filter.batch.is_some() {
        return false;
    }
    // Running messages have an index of their own, and so have planned one-time jobs.
    let is_indexed = filter.planned || filter.states == [MessageState::Running];
    if is_indexed && states.contains(&MessageState::Running) {
        return false;
    }
    let wants = |state: &MessageState| filter.states.is_empty() || filter.states.contains(state);
    let is_narrow = filter.queue.is_some() || filter.topic.is_some() || filter.planned;
    states.iter().any(wants) && (is_narrow || !states.iter().all(wants))
}

/// Returns the same for a page of executions.
pub fn scans_executions(filter: &ExecutionFilter) -> bool {
    let is_found = filter.message.is_some() || filter.job.is_some();
    !is_found && (filter.topic.is_some() || !filter.endings.is_empty())
}

/// Builds a page of at most `limit` rows from `limit + 1` rows; when it is the last one otherwise, the next
/// page begins at the floor.
pub fn page<Row, Id>(
    mut rows: Vec<Row>,
    limit: usize,
    id: impl Fn(&Row) -> Id,
    floor: Option<Id>,
) -> PageResult<Row, Id> {
    let more = rows.len() > limit;
    rows.truncate(limit);
    PageResult { next: rows.last().filter(|_| more).map(id).or(floor), rows }
}

#[cfg(test)]
mod tests {
    use punctual::model::Queue;

    use super::*;

    const TABLES: [&[MessageState]; 3] = [
        &[MessageState::Pending, MessageState::Running],
        &[MessageState::Done, MessageState::Cancelled],
        &[MessageState::Dead],
    ];

    fn scanned(filter: &MessageFilter) -> Vec<usize> {
        (0..TABLES.len()).filter(|table| scans_messages(filter, TABLES[*table])).collect()
    }

    #[test]
    fn only_filters_without_an_index_are_bounded() {
        let all = MessageFilter::default();
        assert!(scanned(&all).is_empty());
        let of = |states: &[MessageState]| MessageFilter { states: states.to_vec(), ..all.clone() };
        assert!(scanned(&of(&[MessageState::Running])).is_empty());
        assert!(scanned(&of(&[MessageState::Dead])).is_empty());
        assert_eq!(scanned(&of(&[MessageState::Pending])), [0]);
        assert_eq!(scanned(&of(&[MessageState::Cancelled])), [1]);
        let queue = MessageFilter { queue: Some(Queue::from("mail".to_owned())), ..all.clone() };
        assert_eq!(scanned(&queue), [0, 1, 2]);
        let planned = |states: &[MessageState]| MessageFilter { planned: true, ..of(states) };
        assert!(scanned(&planned(&[MessageState::Pending, MessageState::Running])).is_empty());
        assert_eq!(scanned(&planned(&[])), [1, 2], "dead letters and the history");
    }

    #[test]
    fn a_page_continues_behind_its_last_row_or_else_at_the_floor() {
        let page = |count, floor| page((1..=count).collect(), 2, |row: &u8| *row, floor);
        assert_eq!(page(3, Some(9)), PageResult { rows: vec![1, 2], next: Some(2) });
        assert_eq!(page(2, Some(9)), PageResult { rows: vec![1, 2], next: Some(9) });
        assert_eq!(page(2, None), PageResult { rows: vec![1, 2], next: None });
    }
}
