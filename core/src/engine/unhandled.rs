//! Unhandled messages: what this process received and has no handler for, and for how long each was put off.
//! Claims pass over such messages, so they come from brokers that deliver several topics to one subscription,
//! and to a process with more handlers than one claim can name. How long a message was put off is stored with
//! it; only what has no place there is remembered here and ends with the process: deliveries of a process
//! without a storage, and messages of a storage that only a transport uses.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Process;
use crate::clock::{Clock, add, within};
use crate::model::{MessageId, noted};
use crate::policy::put_off;
use crate::transport::{Delivery, Receipt};

/// The most messages that are remembered; beyond it the one that was met first is forgotten.
const REMEMBERED_MAX: usize = 10_000;
/// How long the storage may take to say how long a message was put off.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns for how long a delivery was put off for want of a handler before, by any process.
pub(super) async fn waited(process: &Process, delivery: &Delivery) -> Duration {
    let id = delivery.message.id;
    let stored = match &delivery.receipt {
        Receipt::Lease(receipt) if Arc::ptr_eq(&receipt.storage, &process.storage) => {
            stored(process, id).await
        }
        Receipt::Broker(_) if process.holds => {
            let told = delivery.message.headers.get(noted::UNHANDLED);
            let seconds = told.and_then(|text| text.parse().ok()).unwrap_or_default();
            Some(Duration::from_secs(seconds))
        }
        Receipt::Lease(_) | Receipt::Broker(_) => None,
    };
    stored.unwrap_or_else(|| process.registry.unhandled.waited(id))
}

/// Reads it from the storage; none when that does not say.
async fn stored(process: &Process, id: MessageId) -> Option<Duration> {
    let clock: &dyn Clock = &*process.clock;
    let until = add(clock.now(), READ_TIMEOUT);
    let record = within(clock, until, process.inspect.message(id)).await?.ok()??;
    Some(record.error.as_deref().map_or(Duration::ZERO, put_off))
}

/// For how long messages were put off for want of a handler.
#[derive(Default)]
pub(crate) struct Unhandled {
    met: Mutex<Met>,
}

#[derive(Default)]
struct Met {
    messages: HashMap<MessageId, (Duration, u64)>,
    order: BTreeMap<u64, MessageId>,
    next: u64,
}

impl Unhandled {
    /// Returns for how long a message was put off; zero when it is not known.
    fn waited(&self, message: MessageId) -> Duration {
        self.lock().messages.get(&message).map_or(Duration::ZERO, |(waited, _)| *waited)
    }

    /// Remembers what a message is given back with, and forgets one that is not given back any more.
    pub(super) fn judged(&self, message: MessageId, note: Option<&str>) {
        match note {
            Some(note) => self.remember(message, put_off(note)),
            None => self.forget(message),
        }
    }

    fn remember(&self, message: MessageId, waited: Duration) {
        let mut met = self.lock();
        if let Some((known, _)) = met.messages.get_mut(&message) {
            *known = waited;
            return;
        }
        if met.messages.len() >= REMEMBERED_MAX
            && let Some((_, oldest)) = met.order.pop_first()
        {
            met.messages.remove(&oldest);
        }
        let number = met.next;
        met.next += 1;
        met.messages.insert(message, (waited, number));
        met.order.insert(number, message);
    }

    fn forget(&self, message: MessageId) {
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

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn what_was_remembered_last_counts_until_it_is_forgotten() {
        let unhandled = Unhandled::default();
        assert_eq!(unhandled.waited(id(1)), Duration::ZERO);
        unhandled.remember(id(1), MINUTE);
        unhandled.remember(id(1), 2 * MINUTE);
        assert_eq!(unhandled.waited(id(1)), 2 * MINUTE);
        unhandled.forget(id(1));
        assert_eq!(unhandled.waited(id(1)), Duration::ZERO);
    }

    #[test]
    fn no_more_are_remembered_than_the_bound() {
        let unhandled = Unhandled::default();
        for number in 0..=REMEMBERED_MAX {
            unhandled.remember(id(number), MINUTE);
        }
        assert_eq!(unhandled.waited(id(REMEMBERED_MAX)), MINUTE);
        assert_eq!(unhandled.waited(id(0)), Duration::ZERO, "the first one was forgotten");
        let met = unhandled.lock();
        assert_eq!((met.messages.len(), met.order.len()), (REMEMBERED_MAX, REMEMBERED_MAX));
    }
}
