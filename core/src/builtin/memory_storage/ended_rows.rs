//! Ended rows, in the order they ended. Nearly every row ends after all others and is appended; a late one is
//! inserted at its position. The oldest are at the front, where rows beyond the limit are removed.

use std::cmp::Ordering;
use std::collections::VecDeque;

use jiff::Timestamp;

/// Sort key: an instant, and an id as a number, which compares faster than bytes.
pub(super) type TimeKey = (Timestamp, u128);

/// Returns the smallest key at an instant; every smaller key is strictly before it.
pub(super) fn first_key_at(instant: Timestamp) -> TimeKey {
    (instant, 0)
}

/// Row with a sort key, which is unique.
pub(super) trait EndedRow {
    /// Returns when it ended, and its id.
    fn key(&self) -> TimeKey;
}

/// Rows sorted by when they ended.
pub(super) struct EndedRows<Row> {
    rows: VecDeque<Row>,
}

impl<Row: EndedRow> EndedRows<Row> {
    pub(super) fn new() -> Self {
        Self { rows: VecDeque::new() }
    }

    /// Inserts a row at its position; does nothing when its key is present.
    pub(super) fn insert(&mut self, row: Row) {
        let key = row.key();
        if let Err(index) = self.position(key) {
            self.rows.insert(index, row);
        }
    }

    /// Returns the index of a key, or where it would be inserted. Late rows are late by a few others only, so
    /// the last rows are compared first.
    fn position(&self, key: TimeKey) -> Result<usize, usize> {
        const NEAR: usize = 32;
        let length = self.rows.len();
        for (back, row) in self.rows.iter().rev().take(NEAR).enumerate() {
            match row.key().cmp(&key) {
                Ordering::Less => return Err(length - back),
                Ordering::Equal => return Ok(length - back - 1),
                Ordering::Greater => {}
            }
        }
        self.rows.binary_search_by_key(&key, Row::key)
    }

    pub(super) fn remove(&mut self, key: TimeKey) {
        // The removed row is nearly always the first one.
        if self.rows.front().is_some_and(|first| first.key() == key) {
            self.rows.pop_front();
        } else if let Ok(index) = self.position(key) {
            self.rows.remove(index);
        }
    }

    pub(super) fn retain(&mut self, keep: impl FnMut(&Row) -> bool) {
        self.rows.retain(keep);
    }

    pub(super) fn first(&self) -> Option<&Row> {
        self.rows.front()
    }

    pub(super) fn pop_first(&mut self) -> Option<Row> {
        self.rows.pop_front()
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn get(&self, index: usize) -> Option<&Row> {
        self.rows.get(index)
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Row> + ExactSizeIterator {
        self.rows.iter()
    }

    /// Returns the rows that ended strictly before an instant, oldest first.
    pub(super) fn before(&self, instant: Timestamp) -> impl Iterator<Item = &Row> {
        self.rows.iter().take_while(move |row| row.key() < first_key_at(instant))
    }

    /// Returns the rows that ended at an instant or later, oldest first.
    pub(super) fn since(&self, instant: Timestamp) -> impl Iterator<Item = &Row> {
        let start = self.rows.partition_point(|row| row.key() < first_key_at(instant));
        self.rows.range(start..)
    }
}
