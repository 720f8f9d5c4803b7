//! Messages that this process received and has no handler for: since when each was given back. Claims pass
//! over such messages, so they come from brokers that deliver several topics to one subscription, and to a
//! process with more handlers than one claim can name. What is remembered ends with the process.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use crate::model::MessageId;

/// The most messages that are remembered; beyond it the one that was met first is forgotten.
const REMEMBERED_MAX: usize = 10_000;

/// Since when messages are given back for want of a handler.
#[derive(Default)]
pub(crate) struct Unhandled {
    met: Mutex<Met>,
}

#[derive(Default)]
struct Met {
    messages: HashMap<MessageId, (Timestamp, u64)>,
    order: BTreeMap<u64, MessageId>,
    next: u64,
}

impl Unhandled {
    /// Returns since when a message is given back: since now when it was not before.
    pub(crate) fn since(&self, message: MessageId, now: Timestamp) -> Timestamp {
        let mut met = self.lock();
        if let Some((since, _)) = met.messages.get(&message) {
            return *since;
        }
        if met.messages.len() >= REMEMBERED_MAX
            && let Some((_, oldest)) = met.order.pop_first()
        {
            met.messages.remove(&oldest);
        }
        let number = met.next;
        met.next += 1;
        met.messages.insert(message, (now, number));
        met.order.insert(number, message);
        now
    }

    /// Forgets a message that is not given back any more.
    pub(crate) fn forget(&self, message: MessageId) {
        let mut met = self.lock();
        if let Some((_, number)) = met.messages.remove(&message) {
            met.order.remove(&number);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Met> {
        self.met.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn id(number: usize) -> MessageId {
        MessageId::from_uuid(Uuid::from_u64_pair(0, number as u64))
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_first_time_counts_until_it_is_forgotten() {
        let unhandled = Unhandled::default();
        assert_eq!(unhandled.since(id(1), at(5)), at(5));
        assert_eq!(unhandled.since(id(1), at(90)), at(5));
        unhandled.forget(id(1));
        assert_eq!(unhandled.since(id(1), at(100)), at(100));
    }

    #[test]
    fn no_more_are_remembered_than_the_bound() {
        let unhandled = Unhandled::default();
        for number in 0..=REMEMBERED_MAX {
            unhandled.since(id(number), at(1));
        }
        assert_eq!(unhandled.since(id(REMEMBERED_MAX), at(2)), at(1));
        assert_eq!(unhandled.since(id(0), at(2)), at(2), "the first one was forgotten");
        let met = unhandled.lock();
        assert_eq!((met.messages.len(), met.order.len()), (REMEMBERED_MAX, REMEMBERED_MAX));
    }
}
