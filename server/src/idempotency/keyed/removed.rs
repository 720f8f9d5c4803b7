//! Deleted messages of keyed requests: their ids are stored as long as a key, so that a repeat does not create
//! them again.
//!
//! An id derived from a key contains a signature, so that only those are stored.

use jiff::Timestamp;
use punctual::Result;
use punctual::backend::documents::{DOCUMENTS_MAX, KeyRange, NewDocument};
use punctual::clock::add;
use punctual::model::MessageId;
use serde_json::json;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::app::App;
use crate::idempotency::record::RETENTION;

/// The kind of the documents.
pub(crate) const KIND: &str = "idempotency_removed";
/// The bits of the signature, at the end of an id.
const SIGNATURE: u64 = 0xffff;
/// Number of characters of an id that encode its millisecond.
const MILLISECOND_LEN: usize = 13;

/// Returns the id of these bits with its signature.
pub(super) fn signed(high: u64, low: u64) -> Uuid {
    Uuid::from_u64_pair(high, (low & !SIGNATURE) | sign(high, low))
}

fn sign(high: u64, low: u64) -> u64 {
    let mut hash = Sha256::new();
    hash.update("derived from an Idempotency-Key");
    hash.update(high.to_le_bytes());
    hash.update((low & !SIGNATURE).to_le_bytes());
    let hash = hash.finalize();
    hash.iter().take(2).fold(0, |bits, byte| (bits << 8) | u64::from(*byte))
}

/// Returns until when an id has to be stored; none for an id not derived from a key. One in 65,536 other ids has
/// a valid signature by chance, which costs a document.
fn stored_until(id: MessageId, now: Timestamp) -> Option<Timestamp> {
    let (high, low) = id.as_uuid().as_u64_pair();
    if low & SIGNATURE != sign(high, low) {
        return None;
    }
    let made_at = Timestamp::from_millisecond(i64::try_from(high >> 16).ok()?).ok()?;
    // Margin for positions beyond the twelve bits and for fractions of a millisecond.
    let until = add(add(made_at, RETENTION), std::time::Duration::from_secs(60));
    (until > now).then_some(until)
}

/// Stores the ids of messages that are about to be deleted, if they are derived from a key.
pub(crate) async fn remember_removed(app: &App, ids: &[MessageId]) -> Result<()> {
    let now = app.clock.now();
    let draft = |id: &MessageId| {
        let until = stored_until(*id, now)?;
        Some(NewDocument::new(KIND, id.to_string(), json!({})).expires_at(until))
    };
    let drafts: Vec<NewDocument> = ids.iter().filter_map(draft).collect();
    for some in drafts.chunks(DOCUMENTS_MAX) {
        app.documents.put_all(some.to_vec(), now).await?;
    }
    Ok(())
}

/// Returns the position of the last of these ids that was deleted.
pub(super) async fn last_of(app: &App, ids: &[MessageId]) -> Result<Option<usize>> {
    let Some(first) = ids.first() else { return Ok(None) };
    let now = app.clock.now();
    // All ids of one request share a millisecond with few others.
    let prefix: String = first.to_string().chars().take(MILLISECOND_LEN).collect();
    let range = KeyRange { descending: true, ..KeyRange::prefix(prefix) };
    let removed = app.documents.list(KIND, range, now).await?;
    let is_removed = |id: &MessageId| removed.iter().any(|one| one.key == id.to_string());
    Ok(ids.iter().rposition(is_removed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_derived_id_is_stored_for_a_day_and_another_is_not() {
        let made_at: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let later = |hours: u64| add(made_at, std::time::Duration::from_secs(hours * 3_600));
        let high = (made_at.as_millisecond().unsigned_abs() << 16) | 0x7003;
        for low in [0b10 << 62, (0b10 << 62) | 0x1234_5678_9abc] {
            let id = MessageId::from_uuid(signed(high, low));
            assert!(stored_until(id, made_at).is_some_and(|until| until > later(24)));
            assert_eq!(stored_until(id, later(25)), None);
            let other = MessageId::from_uuid(Uuid::from_u64_pair(
                high,
                signed(high, low).as_u64_pair().1 ^ 1,
            ));
            assert_eq!(stored_until(other, made_at), None);
        }
    }
}
