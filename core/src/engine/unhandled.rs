//! Unhandled messages: those this process received without a handler, and for how long each was put off.
//! Claims pass over such messages, so they come from brokers that deliver several topics to one subscription,
//! and to a process with more handlers than one claim can name. How long a message was put off is stored with
//! it. Only messages without such a record are stored in memory, until the process ends: deliveries of a
//! process without a storage, and messages of a storage that only a transport uses.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Process;
use super::receipt::ReceivedMessage;
use crate::model::MessageId;
use crate::policy::put_off;

/// Largest number of messages stored in memory; beyond it the oldest one is removed.
const STORED_MAX: usize = 10_000;

/// Returns for how long a message was put off before, by any process, because it had no handler.
pub(super) async fn waited(process: &Process, received: &ReceivedMessage) -> Duration {
    let stored = received.receipt.unhandled(process, &received.message).await;
    stored.unwrap_or_else(|| process.runner.registry.unhandled.waited(received.message.id))
}

/// Durations for which messages were put off because they had no handler.
#[derive(Default)]
pub(crate) struct Unhandled {
    waits: Mutex<WaitTable>,
}

#[derive(Default)]
struct WaitTable {
    messages: HashMap<MessageId, (Duration, u64)>,
    order: BTreeMap<u64, MessageId>,
    next: u64,
}

impl Unhandled {
    /// Returns for how long a message was put off; zero when it is not known.
    fn waited(&self, message: MessageId) -> Duration {
        self.lock().messages.get(&message).map_or(Duration::ZERO, |(waited, _)| *waited)
    }

    /// Stores the note with which a message is released, and removes a message that is not released any more.
    pub(super) fn record(&self, message: MessageId, note: Option<&str>) {
        match note {
            Some(note) => self.store(message, put_off(note)),
            None => self.remove(message),
        }
    }

    fn store(&self, message: MessageId, waited: Duration) {
        let mut waits = self.lock();
        if let Some((known, _)) = waits.messages.get_mut(&message) {
            *known = waited;
            return;
        }
        if waits.messages.len() >= STORED_MAX
            && let Some((_, oldest)) = waits.order.pop_first()
        {
            waits.messages.remove(&oldest);
        }
        let number = waits.next;
        waits.next += 1;
        waits.messages.insert(message, (waited, number));
        waits.order.insert(number, message);
    }

    fn remove(&self, message: MessageId) {
        let mut waits = self.lock();
        if let Some((_, number)) = waits.messages.remove(&message) {
            waits.order.remove(&number);
        }
    }

    fn lock(&self) -> MutexGuard<'_, WaitTable> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn id(number: usize) -> MessageId {
        MessageId::from_uuid(Uuid::from_u64_pair(0, number as u64))
    }

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn the_last_duration_counts_until_it_is_removed() {
        let unhandled = Unhandled::default();
        assert_eq!(unhandled.waited(id(1)), Duration::ZERO);
        unhandled.store(id(1), MINUTE);
        unhandled.store(id(1), 2 * MINUTE);
        assert_eq!(unhandled.waited(id(1)), 2 * MINUTE);
        unhandled.remove(id(1));
        assert_eq!(unhandled.waited(id(1)), Duration::ZERO);
    }

    #[test]
    fn no_more_are_stored_than_the_bound() {
        let unhandled = Unhandled::default();
        for number in 0..=STORED_MAX {
            unhandled.store(id(number), MINUTE);
        }
        assert_eq!(unhandled.waited(id(STORED_MAX)), MINUTE);
        assert_eq!(unhandled.waited(id(0)), Duration::ZERO, "the first one was removed");
        let waits = unhandled.lock();
        assert_eq!((waits.messages.len(), waits.order.len()), (STORED_MAX, STORED_MAX));
    }
}
