//! Tests of deduplication, by the messages that are stored.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::*;
use crate::model::{Queue, Route, Source, TransportName};
use crate::policy::verdict::tests::message;

const STATES: [MessageState; 5] = [
    MessageState::Pending,
    MessageState::Running,
    MessageState::Dead,
    MessageState::Done,
    MessageState::Cancelled,
];

fn other() -> MessageId {
    MessageId::from_uuid(uuid::Uuid::from_u128(77))
}

fn redriven() -> Message {
    Message { source: Source::Redriven, ..message() }
}

/// Decides about a message whose id is stored in a state.
fn repeated(message: &Message, stored: &Message, state: MessageState) -> DedupeDecision {
    let record = MessageRecord { state, ..MessageRecord::new(Arc::new(stored.clone())) };
    let known = DedupeFacts { same_id: Some(SameId::from(&record)), ..DedupeFacts::default() };
    dedupe(message, false, &known)
}

#[test]
fn an_unknown_message_is_inserted() {
    for replace in [false, true] {
        assert_eq!(dedupe(&message(), replace, &DedupeFacts::default()), DedupeDecision::Insert);
    }
}

#[test]
fn a_known_id_is_a_duplicate_of_itself_in_every_state() {
    let message = message();
    for state in STATES {
        let duplicate = DedupeDecision::Duplicate(message.id);
        assert_eq!(repeated(&message, &message, state), duplicate, "{state:?}");
        let stored = Message { created_at: Timestamp::MIN, ..message.clone() };
        assert_eq!(repeated(&message, &stored, state), duplicate, "{state:?} and different");
    }
}

#[test]
fn a_message_that_may_return_replaces_a_finished_one_that_differs() {
    let transport = TransportName::new("kafka").unwrap();
    let queue = Queue::of_relay(&transport);
    let relayed = Message { queue, route: Some(Arc::new(Route::new(transport))), ..message() };
    assert!(relayed.may_return());
    for again in [redriven(), relayed] {
        let duplicate = DedupeDecision::Duplicate(again.id);
        let different = Message { exclusive: !again.exclusive, ..again.clone() };
        for state in STATES {
            let is_finished = matches!(state, MessageState::Done | MessageState::Cancelled);
            let expected = if is_finished { DedupeDecision::Insert } else { duplicate };
            assert_eq!(repeated(&again, &different, state), expected, "{state:?}");
            assert_eq!(repeated(&again, &again, state), duplicate, "{state:?} and the same");
        }
    }
}

#[test]
fn a_message_that_was_stored_to_the_microsecond_is_the_same_sending() {
    let due_at = Timestamp::from_nanosecond(1_700_000_000_000_000_999).unwrap();
    let again = Message { due_at, created_at: due_at, ..redriven() };
    let at = |micros| Timestamp::from_microsecond(micros).unwrap();
    let (cut, rounded_up) = (at(1_700_000_000_000_000), at(1_700_000_000_000_001));
    for due_at in [cut, rounded_up] {
        let stored =
            Message { due_at, created_at: cut, source: Source::Published, ..again.clone() };
        let decision = repeated(&again, &stored, MessageState::Done);
        assert_eq!(decision, DedupeDecision::Duplicate(again.id));
    }
    let later = again.due_at + SignedDuration::from_micros(1);
    let stored = Message { due_at: later, ..again.clone() };
    assert_eq!(repeated(&again, &stored, MessageState::Done), DedupeDecision::Insert);
}

#[test]
fn a_key_that_is_alive_makes_a_duplicate_and_only_a_pending_message_is_replaced() {
    for state in [MessageState::Pending, MessageState::Running] {
        let known = DedupeFacts { same_key: Some((other(), state)), ..DedupeFacts::default() };
        let duplicate = DedupeDecision::Duplicate(other());
        assert_eq!(dedupe(&message(), false, &known), duplicate);
        let replaced = match state {
            MessageState::Pending => DedupeDecision::Replace(other()),
            _ => duplicate,
        };
        assert_eq!(dedupe(&message(), true, &known), replaced);
    }
}

#[test]
fn a_reserved_key_makes_a_duplicate_except_of_the_message_that_reserved_it() {
    let reserved = |by| DedupeFacts { reserved_by: Some(by), ..DedupeFacts::default() };
    for replace in [false, true] {
        let decision = dedupe(&message(), replace, &reserved(other()));
        assert_eq!(decision, DedupeDecision::Duplicate(other()));
        let decision = dedupe(&message(), replace, &reserved(message().id));
        assert_eq!(decision, DedupeDecision::Insert);
    }
}

#[test]
fn the_id_counts_before_the_key_and_an_alive_message_before_a_reservation() {
    let third = MessageId::from_uuid(uuid::Uuid::from_u128(78));
    let same_key = Some((other(), MessageState::Pending));
    let known = DedupeFacts { same_key, reserved_by: Some(third), ..DedupeFacts::default() };
    assert_eq!(dedupe(&message(), true, &known), DedupeDecision::Replace(other()));
    let known = DedupeFacts { same_id: Some(SameId::AliveOrDead), ..known };
    assert_eq!(dedupe(&message(), true, &known), DedupeDecision::Duplicate(message().id));
}
