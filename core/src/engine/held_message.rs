//! Held message: a broker's message that waits in the storage, queued for the relay of its transport. Its route
//! has what the transport would lose. A dead letter has a route as well, so that a redrive sends it back to the
//! one group that gave it up.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::SubscriptionName;
use crate::model::reserved_headers::{SNOOZES, UNHANDLED};
use crate::model::{Message, MessageId, Queue, Route, mix};
use crate::transport::OutgoingMessage;

/// Due time and counters of a message that is delivered again.
pub(super) struct RedeliveryState {
    pub(super) due_at: Timestamp,
    pub(super) attempt: u32,
    pub(super) snoozes: u32,
    /// Duration for which it was put off because it had no handler.
    pub(super) unhandled: Duration,
}

/// Returns a message as held until it is delivered again.
pub(super) fn held_message(
    message: &Message,
    origin: &SubscriptionName,
    redelivery: &RedeliveryState,
) -> Message {
    let RedeliveryState { due_at, attempt, snoozes, unhandled } = *redelivery;
    let first_due_at = Some(message.due_at);
    let route = Route { attempt, snoozes, unhandled, first_due_at, ..route_back(origin) };
    Message { due_at, ..with_route(message, route) }
}

/// Returns a message as a dead letter; its attempts are counted from zero when it is sent again.
pub(super) fn dead_letter(message: &Message, origin: &SubscriptionName) -> Message {
    with_route(message, route_back(origin))
}

/// Returns the route back to a subscription.
fn route_back(origin: &SubscriptionName) -> Route {
    Route { group: Some(origin.group.clone()), ..Route::new(origin.transport.clone()) }
}

/// Returns a delivered message as the storage holds it.
fn with_route(message: &Message, route: Route) -> Message {
    let mut held = message.clone();
    held.queue = Queue::of_relay(&route.transport);
    // It was accepted once; it must neither be refused for another message with the same key nor replace it.
    held.dedupe = None;
    held.headers.remove(SNOOZES);
    held.headers.remove(UNHANDLED);
    held.route = Some(Arc::new(route));
    held
}

/// Returns how often a message was snoozed before its broker delivered it.
pub(super) fn snoozes_of(message: &Message) -> u32 {
    message.headers.get(SNOOZES).and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Returns for how long a message was put off because it had no handler before its broker delivered it.
pub(super) fn unhandled_of(message: &Message) -> Duration {
    let seconds = message.headers.get(UNHANDLED).and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or_default())
}

/// Returns the message under an identity of its group, for when another group's copy has the original one.
pub(super) fn with_group_identity(mut message: Message) -> Message {
    let id = message.id;
    if let Some(route) = &mut message.route {
        let route = Arc::make_mut(route);
        message.id =
            derived(id, message.queue.as_str(), route.group.as_deref().unwrap_or_default());
        route.original_id.get_or_insert(id);
    }
    message
}

/// Returns whether a stored message belongs to another group than the one it is compared with.
pub(super) fn is_of_other_group(stored: &Message, ours: &Message) -> bool {
    let target = |message: &Message| {
        let route = message.route.as_ref()?;
        Some((route.transport.clone(), route.group.clone()?))
    };
    target(stored).is_some_and(|stored| Some(stored) != target(ours))
}

/// Returns what the relay sends of a held message: the message as it was sent, with the counters that travel
/// beside it or in headers.
pub(super) fn outgoing(message: &Arc<Message>) -> OutgoingMessage {
    let mut outgoing = OutgoingMessage {
        message: message.clone(),
        delay: Duration::ZERO,
        attempt: 0,
        group: None,
    };
    let Some(route) = message.route.as_ref().filter(|route| !route.is_plain()) else {
        return outgoing;
    };
    outgoing.attempt = route.attempt;
    outgoing.group = route.group.as_deref().map(str::to_owned);
    let sent = Arc::make_mut(&mut outgoing.message);
    sent.route = None;
    sent.due_at = route.first_due_at.unwrap_or(sent.due_at);
    sent.id = route.original_id.unwrap_or(sent.id);
    if route.snoozes > 0 {
        sent.headers.set_reserved(SNOOZES, route.snoozes.to_string());
    }
    if !route.unhandled.is_zero() {
        sent.headers.set_reserved(UNHANDLED, route.unhandled.as_secs().to_string());
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

    fn redelivery() -> RedeliveryState {
        let (due_at, unhandled) = (Timestamp::UNIX_EPOCH, Duration::from_secs(75));
        RedeliveryState { due_at, attempt: 2, snoozes: 1, unhandled }
    }

    fn origin() -> SubscriptionName {
        SubscriptionName::new("post", "mail", "office").unwrap()
    }

    #[test]
    fn a_held_message_keeps_what_was_sent_and_leaves_as_it_came() {
        let delivered = message();
        let held =
            Arc::new(with_group_identity(held_message(&delivered, &origin(), &redelivery())));
        assert_eq!(
            (&held.headers, &held.correlation),
            (&delivered.headers, &delivered.correlation)
        );
        assert_ne!(held.id, delivered.id);
        let sent = outgoing(&held);
        assert_eq!((sent.attempt, sent.group.as_deref()), (2, Some("office")));
        assert_eq!((sent.message.id, sent.message.due_at), (delivered.id, delivered.due_at));
        assert_eq!((snoozes_of(&sent.message), unhandled_of(&sent.message).as_secs()), (1, 75));
    }

    // A redrive has a budget of its own.
    #[test]
    fn the_counters_of_a_delivery_are_removed_from_a_dead_letter() {
        let sent = outgoing(&Arc::new(held_message(&message(), &origin(), &redelivery()))).message;
        assert_eq!(sent.headers.get(UNHANDLED), Some("75"));
        let dead_letter = dead_letter(&sent, &origin());
        assert_eq!(dead_letter.headers, message().headers);
        let route = dead_letter.route.unwrap();
        assert_eq!((route.attempt, route.snoozes, route.unhandled), (0, 0, Duration::ZERO));
    }
}
