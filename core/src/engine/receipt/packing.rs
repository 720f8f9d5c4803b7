//! Packing of a broker's message that waits in the storage: it is queued for the relay of its transport, and
//! its headers carry what the transport would lose. A dead letter is packed as well, so that a redrive sends
//! it back to the one group that gave it up.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use crate::engine::SubscriptionName;
use crate::model::reserved_headers::{SNOOZES, UNHANDLED};
use crate::model::{Message, MessageId, Queue, mix};
use crate::transport::Outgoing;

/// Header with the number of attempts spent.
const ATTEMPT_HEADER: &str = "punctual-attempt";
/// Header with the group that the message goes back to.
const GROUP_HEADER: &str = "punctual-group";
/// Header with the instant at which the message was first due; proportional retries are measured from it.
const DUE_HEADER: &str = "punctual-due";
/// Header with the original identity of a message that is stored under another one.
const ID_HEADER: &str = "punctual-id";

/// Due time and counters of a message that is delivered again.
pub(super) struct RedeliveryState {
    pub(super) due_at: Timestamp,
    pub(super) attempt: u32,
    pub(super) snoozes: u32,
    /// Duration for which it was put off for want of a handler.
    pub(super) unhandled: Duration,
}

/// Packs a message that waits for the relay.
pub(super) fn pack(
    message: &Message,
    origin: &SubscriptionName,
    redelivery: &RedeliveryState,
) -> Message {
    let mut packed = dead_letter(message, origin);
    packed.due_at = redelivery.due_at;
    packed.headers.set_reserved(ATTEMPT_HEADER, redelivery.attempt.to_string());
    if redelivery.snoozes > 0 {
        packed.headers.set_reserved(SNOOZES, redelivery.snoozes.to_string());
    }
    if !redelivery.unhandled.is_zero() {
        packed.headers.set_reserved(UNHANDLED, redelivery.unhandled.as_secs().to_string());
    }
    packed.headers.set_reserved(DUE_HEADER, message.due_at.to_string());
    packed
}

/// Packs a dead message; its attempts start anew when it is sent again.
pub(super) fn dead_letter(message: &Message, origin: &SubscriptionName) -> Message {
    let mut dead_letter = message.clone();
    dead_letter.queue = Queue::of_relay(&origin.transport);
    // It was accepted once; it must neither be refused for another message with the same key nor replace it.
    dead_letter.dedupe = None;
    dead_letter.headers.remove(SNOOZES);
    dead_letter.headers.remove(UNHANDLED);
    dead_letter.headers.set_reserved(GROUP_HEADER, origin.group.to_string());
    dead_letter
}

/// Returns how often a message was snoozed before it was delivered.
pub(super) fn snoozes_of(message: &Message) -> u32 {
    message.headers.get(SNOOZES).and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Returns for how long a message was put off for want of a handler before it was delivered.
pub(super) fn unhandled_of(message: &Message) -> Duration {
    let seconds = message.headers.get(UNHANDLED).and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or_default())
}

/// Returns the message under an identity of its group, for when another group's copy has the original one.
pub(super) fn with_group_identity(mut message: Message) -> Message {
    let group = message.headers.get(GROUP_HEADER).unwrap_or_default();
    let id = derived(message.id, message.queue.as_str(), group);
    message.headers.set_reserved(ID_HEADER, message.id.to_string());
    message.id = id;
    message
}

/// Returns whether a stored message belongs to another group than the one it is compared with.
pub(super) fn is_of_other_group(stored: &Message, ours: &Message) -> bool {
    let group = |message: &Message| message.headers.get(GROUP_HEADER).map(str::to_owned);
    let is_packed = stored.queue.is_relay() && group(stored).is_some();
    is_packed && (stored.queue != ours.queue || group(stored) != group(ours))
}

/// Unpacks a message for its transport: moves packed values from the headers to the envelope.
pub(crate) fn unpack(message: &Arc<Message>) -> Outgoing {
    let mut outgoing =
        Outgoing { message: message.clone(), delay: Duration::ZERO, attempt: 0, group: None };
    if message.headers.get(GROUP_HEADER).is_some() {
        let Message { id, headers, due_at, .. } = Arc::make_mut(&mut outgoing.message);
        let mut take = |name| headers.remove(name);
        outgoing.attempt =
            take(ATTEMPT_HEADER).and_then(|text| text.parse().ok()).unwrap_or_default();
        outgoing.group = take(GROUP_HEADER);
        *due_at = take(DUE_HEADER).and_then(|text| text.parse().ok()).unwrap_or(*due_at);
        *id = take(ID_HEADER).and_then(|text| text.parse().ok()).unwrap_or(*id);
    }
    outgoing
}

/// Returns an identity that is the same for the same message, queue and group. Its time stays, so that copies
/// sort where the message does.
fn derived(id: MessageId, queue: &str, group: &str) -> MessageId {
    const VARIANT: u64 = 0b10 << 62;
    let (high, low) = id.as_uuid().as_u64_pair();
    let text = queue.bytes().chain([0]).chain(group.bytes());
    let hash = text.fold(mix(high ^ low.rotate_left(7)), |hash, byte| {
        mix(hash.wrapping_add(u64::from(byte) + 1))
    });
    MessageId::from_uuid(Uuid::from_u64_pair(high, (hash >> 2) | VARIANT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::message;

    // A redrive has a budget of its own.
    #[test]
    fn the_time_without_a_handler_is_packed_and_is_removed_from_a_dead_letter() {
        let origin = SubscriptionName::new("post", "mail", "office").unwrap();
        let (due_at, unhandled) = (Timestamp::UNIX_EPOCH, Duration::from_secs(75));
        let redelivery = RedeliveryState { due_at, attempt: 0, snoozes: 0, unhandled };
        let packed = Arc::new(pack(&message(), &origin, &redelivery));
        let sent = unpack(&packed).message;
        assert_eq!(sent.headers.get(UNHANDLED), Some("75"));
        assert_eq!(dead_letter(&sent, &origin).headers.get(UNHANDLED), None);
    }
}
