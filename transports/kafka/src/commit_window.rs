//! Commit window of one partition: which offsets are in flight, and the position up to which all are settled. Kafka
//! stores one offset per partition, which must never pass an unsettled record; offsets settled after such a record
//! wait here. Pure: independent of Kafka.

use std::collections::VecDeque;

/// Offsets of one partition that were received and cannot be committed yet, in order.
///
/// Offsets need not be consecutive: compaction and transactions leave gaps.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommitWindow {
    entries: VecDeque<Entry>,
    /// The offset after the last one that left the window, once there is one.
    next: Option<i64>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    offset: i64,
    settled: bool,
}

impl CommitWindow {
    /// Adds an offset; returns false when it is present already.
    pub(crate) fn open(&mut self, offset: i64) -> bool {
        let settled = false;
        // Offsets arrive in order, except after a log was truncated and starts at a lower offset.
        match self.entries.back() {
            Some(last) if last.offset >= offset => {
                let Err(at) = self.index_of(offset) else { return false };
                self.entries.insert(at, Entry { offset, settled });
            }
            _ => self.entries.push_back(Entry { offset, settled }),
        }
        true
    }

    /// Settles an offset; returns false when it is not in flight.
    pub(crate) fn settle(&mut self, offset: i64) -> bool {
        let Ok(at) = self.index_of(offset) else { return false };
        let Some(entry) = self.entries.get_mut(at) else { return false };
        if entry.settled {
            return false;
        }
        entry.settled = true;
        while let Some(first) = self.entries.front().filter(|first| first.settled) {
            self.next = Some(first.offset.saturating_add(1));
            self.entries.pop_front();
        }
        true
    }

    /// Returns the offset where the next consumer of the partition has to start: the first unsettled one.
    pub(crate) fn position(&self) -> Option<i64> {
        self.entries.front().map(|first| first.offset).or(self.next)
    }

    /// Returns the number of offsets in the window, including settled ones after an unsettled one.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    fn index_of(&self, offset: i64) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&offset, |entry| entry.offset)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn there_is_no_position_before_the_first_offset() {
        assert_eq!(CommitWindow::default().position(), None);
    }

    // Kafka's commit stalled at gaps in a system of the field (spec/traps.md 5.5).
    #[test]
    fn gaps_in_the_log_do_not_stop_the_position() {
        let mut window = CommitWindow::default();
        for offset in [5, 9, 10, 40] {
            window.open(offset);
        }
        assert_eq!(window.position(), Some(5));
        assert!(window.settle(9) && window.settle(10));
        assert_eq!((window.position(), window.len()), (Some(5), 4));
        assert!(window.settle(5));
        assert_eq!((window.position(), window.len()), (Some(40), 1));
        assert!(window.settle(40));
        assert_eq!((window.position(), window.len()), (Some(41), 0));
    }

    #[test]
    fn an_offset_is_settled_once() {
        let mut window = CommitWindow::default();
        assert!(window.open(1) && window.open(2));
        assert!(!window.open(1) && !window.open(2));
        assert!(window.settle(2));
        assert!(!window.settle(2) && !window.settle(3));
    }

    #[test]
    fn a_truncated_log_is_followed() {
        let mut window = CommitWindow::default();
        window.open(100);
        window.settle(100);
        window.open(0);
        assert_eq!(window.position(), Some(0));
        window.settle(0);
        assert_eq!(window.position(), Some(1));
    }

    proptest! {
        // The position never passes an unsettled offset, and ends after the last one once all are settled.
        #[test]
        fn the_position_is_before_the_first_unsettled_one(
            offsets in prop::collection::btree_set(0_i64..500, 1..60),
            order in prop::collection::vec(any::<prop::sample::Index>(), 0..80),
        ) {
            let offsets: Vec<i64> = offsets.into_iter().collect();
            let mut window = CommitWindow::default();
            for offset in &offsets {
                window.open(*offset);
            }
            let mut open: BTreeSet<i64> = offsets.iter().copied().collect();
            let ends = offsets[offsets.len() - 1] + 1;
            for index in order {
                let offset = *index.get(&offsets);
                prop_assert_eq!(window.settle(offset), open.remove(&offset));
                let first = open.first().copied().unwrap_or(ends);
                prop_assert_eq!(window.position(), Some(first));
                prop_assert_eq!(window.len(), offsets.iter().filter(|one| **one >= first).count());
            }
            for offset in open.clone() {
                prop_assert!(window.settle(offset));
            }
            prop_assert_eq!((window.position(), window.len()), (Some(ends), 0));
        }
    }
}
