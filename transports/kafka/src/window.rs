//! The window: which offsets of one partition are in hand, and up to which one everything is settled. Kafka
//! remembers one number per partition, so that number must never pass an offset that is not settled; what
//! is settled behind such a one waits here. Pure: it knows nothing of Kafka.

use std::collections::VecDeque;

/// The offsets of one partition that were received and cannot be given up yet, in their order.
///
/// Offsets need not follow each other: compaction and transactions leave holes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Window {
    entries: VecDeque<Entry>,
    /// The offset after the last one that was given up, once there is one.
    next: Option<i64>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    offset: i64,
    settled: bool,
}

impl Window {
    /// Takes an offset in; false when it is there already.
    pub(crate) fn open(&mut self, offset: i64) -> bool {
        let settled = false;
        // They come in order; only a log that was cut off and grew again begins anew below.
        match self.entries.back() {
            Some(last) if last.offset >= offset => {
                let Err(at) = self.place(offset) else { return false };
                self.entries.insert(at, Entry { offset, settled });
            }
            _ => self.entries.push_back(Entry { offset, settled }),
        }
        true
    }

    /// Settles an offset; false when it is not in hand.
    pub(crate) fn settle(&mut self, offset: i64) -> bool {
        let Ok(at) = self.place(offset) else { return false };
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

    /// Where the next consumer of the partition has to begin: before the first offset that is not settled.
    pub(crate) fn position(&self) -> Option<i64> {
        self.entries.front().map(|first| first.offset).or(self.next)
    }

    /// How many offsets are kept, settled ones behind an unsettled one included.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    fn place(&self, offset: i64) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&offset, |entry| entry.offset)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nothing_is_given_up_before_something_came() {
        assert_eq!(Window::default().position(), None);
    }

    // Kafka's commit stalled at gaps in a system of the field (spec/traps.md 5.5).
    #[test]
    fn holes_in_the_log_do_not_stop_it() {
        let mut window = Window::default();
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
        let mut window = Window::default();
        assert!(window.open(1) && window.open(2));
        assert!(!window.open(1) && !window.open(2));
        assert!(window.settle(2));
        assert!(!window.settle(2) && !window.settle(3));
    }

    #[test]
    fn a_log_that_begins_anew_is_followed() {
        let mut window = Window::default();
        window.open(100);
        window.settle(100);
        window.open(0);
        assert_eq!(window.position(), Some(0));
        window.settle(0);
        assert_eq!(window.position(), Some(1));
    }

    proptest! {
        // The position never passes what is not settled, and ends behind everything once all of it is.
        #[test]
        fn the_position_is_before_the_first_unsettled_one(
            offsets in prop::collection::btree_set(0_i64..500, 1..60),
            order in prop::collection::vec(any::<prop::sample::Index>(), 0..80),
        ) {
            let offsets: Vec<i64> = offsets.into_iter().collect();
            let mut window = Window::default();
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
