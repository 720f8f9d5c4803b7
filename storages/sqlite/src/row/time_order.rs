//! Time order of the history. Ids begin with the millisecond in which they were created, which for an attempt
//! is its start, so most rows are stored in the order in which they ended, to the second, and need no index by
//! time. All others are strayed: a small index contains their end.

use punctual::model::MessageId;
use punctual::uuid::Uuid;

/// Microseconds after the creation of its id within which a row may end without being strayed. Also the longest
/// time between the end of the last attempt and the end of a message that shares a row with it.
pub(crate) const NEAR: i64 = 1_000_000;

const MILLISECOND_MAX: i64 = (1 << 48) - 1;
/// Bits of an id below its millisecond.
const BELOW: u32 = 80;

/// Returns when a row ended, if that does not follow from its id.
pub(crate) fn strayed(id: Uuid, ended_at: i64) -> Option<i64> {
    let (high, _) = id.as_u64_pair();
    let made_at = i64::try_from(high >> 16).unwrap_or(MILLISECOND_MAX) * 1_000;
    let after = ended_at.saturating_sub(made_at);
    (!(0..NEAR).contains(&after)).then_some(ended_at)
}

/// Returns the least id that can be created in the millisecond of an instant.
pub(crate) fn first_id(at: i64) -> Uuid {
    let millisecond = at.div_euclid(1_000).clamp(0, MILLISECOND_MAX);
    Uuid::from_u128(u128::try_from(millisecond).unwrap_or(0) << BELOW)
}

/// Creates an id for the row of a message that was finished without an attempt.
pub(crate) fn id_of_finished(message: MessageId, at: i64) -> Uuid {
    let below = message.as_uuid().as_u128() & ((1 << BELOW) - 1);
    Uuid::from_u128(first_id(at).as_u128() | below)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MADE_AT: i64 = 1_700_000_000_123_000;

    #[test]
    fn a_row_is_in_order_for_a_second_after_its_id_was_created() {
        let id = Uuid::from_u128(first_id(MADE_AT).as_u128() | 0x7abc << 64 | 0b10 << 62 | 7);
        for ended_at in [MADE_AT, MADE_AT + 1, MADE_AT + NEAR - 1] {
            assert_eq!(strayed(id, ended_at), None);
        }
        for ended_at in [MADE_AT - 1, MADE_AT + NEAR, -1, i64::MIN, i64::MAX] {
            assert_eq!(strayed(id, ended_at), Some(ended_at));
        }
        assert_eq!(strayed(Uuid::max(), MADE_AT), Some(MADE_AT));
    }

    #[test]
    fn the_row_of_a_finished_message_is_in_order_and_has_its_own_id() {
        let [one, two] = [7, 8].map(|id| MessageId::from_uuid(Uuid::from_u128(id)));
        let id = id_of_finished(one, MADE_AT + 999);
        assert_eq!(strayed(id, MADE_AT + 999), None);
        assert!(first_id(MADE_AT) <= id && id < first_id(MADE_AT + 1_000));
        assert_ne!(id, id_of_finished(two, MADE_AT + 999));
        assert_eq!(first_id(-5), Uuid::nil());
        assert_eq!(strayed(id_of_finished(one, -5), -5), Some(-5), "earlier than the first id");
    }
}
