//! A broker's message as it waits in the storage: bound for the relay of the transport it came from, with
//! what the transport would forget in headers of its own. A dead letter is packed as well, so that a
//! redrive sends it back to the one group that gave it up.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::SubscribedTo;
use crate::model::noted::{SNOOZES, UNHANDLED};
use crate::model::{Message, MessageId, Queue, mix};
use crate::transport::Outgoing;

/// Carries the attempts spent while a message is kept.
const ATTEMPT_HEADER: &str = "punctual-attempt";
/// Carries the group a kept message goes back to.
const GROUP_HEADER: &str = "punctual-group";
/// Carries when a kept message was first due: what proportional retries are measured by.
const DUE_HEADER: &str = "punctual-due";
/// Carries the identity of a message that is kept under another one.
const ID_HEADER: &str = "punctual-id";

/// A message on its way back: when it is due, and what was counted so far.
pub(super) struct Return {
    pub(super) due_at: Timestamp,
    pub(super) attempt: u32,
    pub(super) snoozes: u32,
    /// For how long it was put off for want of a handler.
    pub(super) unhandled: Duration,
}

/// A message as it waits for the relay.
pub(super) fn packed(message: &Message, from: &SubscribedTo, back: &Return) -> Message {
    let mut packed = letter(message, from);
    packed.due_at = back.due_at;
    packed.headers.note(ATTEMPT_HEADER, back.attempt.to_string());
    if back.snoozes > 0 {
        packed.headers.note(SNOOZES, back.snoozes.to_string());
    }
    if !back.unhandled.is_zero() {
        packed.headers.note(UNHANDLED, back.unhandled.as_secs().to_string());
    }
    packed.headers.note(DUE_HEADER, message.due_at.to_string());
    packed
}

/// A message as it is kept when it is dead: attempts start anew when it is sent again.
pub(super) fn letter(message: &Message, from: &SubscribedTo) -> Message {
    let mut letter = message.clone();
    letter.queue = Queue::of_relay(&from.transport);
    // It was accepted once; another message that came under the same key since must not get in its
    // way, nor be replaced by it.
    letter.dedupe = None;
    letter.headers.remove(SNOOZES);
    letter.headers.remove(UNHANDLED);
    letter.headers.note(GROUP_HEADER, from.group.clone());
    letter
}

/// How often a message was snoozed before it was delivered.
pub(super) fn snoozes_of(message: &Message) -> u32 {
    message.headers.get(SNOOZES).and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// The same under an identity of its group's own, for when another group's copy has the first one.
pub(super) fn apart(mut message: Message) -> Message {
    let group = message.headers.get(GROUP_HEADER).unwrap_or_default();
    let id = derived(message.id, message.queue.as_str(), group);
    message.headers.note(ID_HEADER, message.id.to_string());
    message.id = id;
    message
}

/// Whether a kept message belongs to another group than the one it is compared with.
pub(super) fn is_of_another(stored: &Message, ours: &Message) -> bool {
    let group = |message: &Message| message.headers.get(GROUP_HEADER).map(str::to_owned);
    let is_kept = stored.queue.is_relay() && group(stored).is_some();
    is_kept && (stored.queue != ours.queue || group(stored) != group(ours))
}

/// A message as it leaves: what was packed moves from the headers to the envelope.
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

/// An identity that is the same for the same message, line and group. Its time stays, so that copies
/// sort where the message does.
fn derived(id: MessageId, line: &str, group: &str) -> MessageId {
    const VARIANT: u64 = 0b10 << 62;
    let (high, low) = id.as_uuid().as_u64_pair();
    let text = line.bytes().chain([0]).chain(group.bytes());
    let hash = text.fold(mix(high ^ low.rotate_left(7)), |hash, byte| {
        mix(hash.wrapping_add(u64::from(byte) + 1))
    });
    MessageId::from_uuid(Uuid::from_u64_pair(high, (hash >> 2) | VARIANT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TransportName;
    use crate::wire::tests::message;

    // A redrive has a budget of its own.
    #[test]
    fn how_long_it_was_put_off_for_want_of_a_handler_travels_along_and_not_with_a_letter() {
        let from = SubscribedTo {
            transport: TransportName::new("post").unwrap(),
            group: "office".to_owned(),
        };
        let (due_at, unhandled) = (Timestamp::UNIX_EPOCH, Duration::from_secs(75));
        let back = Return { due_at, attempt: 0, snoozes: 0, unhandled };
        let packed = Arc::new(packed(&message(), &from, &back));
        let sent = unpack(&packed).message;
        assert_eq!(sent.headers.get(UNHANDLED), Some("75"));
        assert_eq!(letter(&sent, &from).headers.get(UNHANDLED), None);
    }
}
