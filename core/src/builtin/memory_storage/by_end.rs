//! Rows in the order they ended. Nearly every row ends after all others, so it is simply appended;
//! one that comes late is put in its place. The oldest are at the front, ready to fall out.

use std::cmp::Ordering;
use std::collections::VecDeque;

use jiff::Timestamp;

/// An instant, and an id as a number: compared without looking at bytes one by one.
pub(super) type Place = (Timestamp, u128);

/// The first place at an instant; everything below it is strictly before.
pub(super) fn first_at(instant: Timestamp) -> Place {
    (instant, 0)
}

/// A row that knows where it belongs. No two rows have the same place.
pub(super) trait Ended {
    /// When it ended, and its id.
    fn place(&self) -> Place;
}

/// Rows sorted by their end.
pub(super) struct ByEnd<Row> {
    rows: VecDeque<Row>,
}

impl<Row: Ended> ByEnd<Row> {
    pub(super) fn new() -> Self {
        Self { rows: VecDeque::new() }
    }

    /// Puts a row in its place; nothing happens when one is there already.
    pub(super) fn insert(&mut self, row: Row) {
        let place = row.place();
        if let Err(index) = self.search(place) {
            self.rows.insert(index, row);
        }
    }

    /// Where a place is, or where it would be. Late rows are late by a few others only, so the end
    /// is looked at first.
    fn search(&self, place: Place) -> Result<usize, usize> {
        const NEAR: usize = 32;
        let length = self.rows.len();
        for (back, row) in self.rows.iter().rev().take(NEAR).enumerate() {
            match row.place().cmp(&place) {
                Ordering::Less => return Err(length - back),
                Ordering::Equal => return Ok(length - back - 1),
                Ordering::Greater => {}
            }
        }
        self.rows.binary_search_by_key(&place, Row::place)
    }

    pub(super) fn remove(&mut self, place: Place) {
        // What falls out is the first, nearly always.
        if self.rows.front().is_some_and(|first| first.place() == place) {
            self.rows.pop_front();
        } else if let Ok(index) = self.search(place) {
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

    /// What ended strictly before an instant, oldest first.
    pub(super) fn before(&self, instant: Timestamp) -> impl Iterator<Item = &Row> {
        self.rows.iter().take_while(move |row| row.place() < first_at(instant))
    }

    /// What ended at an instant or later, oldest first.
    pub(super) fn since(&self, instant: Timestamp) -> impl Iterator<Item = &Row> {
        let start = self.rows.partition_point(|row| row.place() < first_at(instant));
        self.rows.range(start..)
    }
}
