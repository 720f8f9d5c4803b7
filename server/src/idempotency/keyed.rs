//! Keyed requests as seen by their endpoints: the ids to use, and whether the request was begun before.
//!
//! Everything is derived from the record of the key, so that a repeat on another server, or after a crash, finds the
//! messages of the first run.

mod changed;
pub(super) mod removed;

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use jiff::Timestamp;
use punctual::backend::storage::CommandResult;
use punctual::client::{Publish, PublishResult};
use punctual::model::{MessageId, MessageRecord, MessageState, Source};
use sha2::{Digest, Sha256};

use super::claim::Claim;
use super::record::MadeMessage;
use crate::app::App;
use crate::problem::ApiResult;

/// Number of positions in the twelve bits between version and variant of an id.
const POSITIONS: u64 = 1 << 12;

/// Context of the Idempotency-Key of a request; empty without one.
#[derive(Clone, Default)]
pub(crate) struct Keyed(Option<KeyContext>);

#[derive(Clone)]
struct KeyContext {
    /// Hash of caller, key, request and first instant.
    seed: [u8; 32],
    first_at: Timestamp,
    is_repeat: bool,
    /// Messages that an earlier run has recorded.
    made: Option<Vec<MadeMessage>>,
    /// The claim that records the messages of this run.
    claim: Option<Claim>,
}

impl Keyed {
    /// Returns the context of a key: the place of its record, its request, and the instant of its first use.
    pub(super) fn new((place, fingerprint): (&str, &str), first_at: Timestamp, runs: u32) -> Self {
        let mut hash = Sha256::new();
        for part in [place.as_bytes(), fingerprint.as_bytes()] {
            hash.update(part.len().to_le_bytes());
            hash.update(part);
        }
        hash.update(first_at.as_microsecond().to_le_bytes());
        let (seed, is_repeat) = (hash.finalize().into(), runs > 1);
        Self(Some(KeyContext { seed, first_at, is_repeat, made: None, claim: None }))
    }

    /// Sets the messages that an earlier run has recorded.
    pub(super) fn with_made(self, made: Option<Vec<MadeMessage>>) -> Self {
        Self(self.0.map(|context| KeyContext { made, ..context }))
    }

    /// Sets the claim under which the request runs.
    pub(super) fn with_claim(self, claim: Claim) -> Self {
        Self(self.0.map(|context| KeyContext { claim: Some(claim), ..context }))
    }

    /// Returns whether the request was begun before and may have had its effect.
    pub(crate) fn is_repeat(&self) -> bool {
        self.0.as_ref().is_some_and(|context| context.is_repeat)
    }

    /// Returns the instant of the first use of the key; now without a key.
    pub(crate) fn first_at(&self, app: &App) -> Timestamp {
        self.0.as_ref().map_or_else(|| app.clock.now(), |context| context.first_at)
    }

    /// Returns the id of the message at a position, the same for every repeat.
    ///
    /// A UUID version 7 with the instant of the first request, in the order of the positions: storages locate ids
    /// by age, and messages due at the same instant are handled in the order of ids.
    pub(crate) fn id(&self, position: usize) -> Option<MessageId> {
        let context = self.0.as_ref()?;
        let position = position as u64;
        let mut hash = Sha256::new();
        hash.update(context.seed);
        hash.update(position.to_le_bytes());
        let hash = hash.finalize();
        let bits = hash.iter().take(8).fold(0_u64, |bits, byte| (bits << 8) | u64::from(*byte));
        let millisecond = u64::try_from(context.first_at.as_millisecond()).unwrap_or(0);
        let millisecond = millisecond.saturating_add(position / POSITIONS);
        let high = (millisecond << 16) | 0x7000 | (position % POSITIONS);
        Some(MessageId::from_uuid(removed::signed(high, (bits >> 2) | (0b10 << 62))))
    }

    /// Sets the id and creation instant of a message. A message for a transport is stored first, since only a storage
    /// recognizes an id again.
    pub(crate) fn identified(&self, publish: Publish, position: usize) -> Publish {
        match (self.id(position), &self.0) {
            (Some(id), Some(context)) => publish.id(id).created_at(context.first_at).durable(),
            _ => publish,
        }
    }

    /// Returns the messages that an earlier run has created, by position, including those finished or deleted
    /// over this API since; none for positions that are still to be created.
    pub(crate) async fn made(
        &self,
        app: &App,
        count: usize,
    ) -> ApiResult<Vec<Option<PublishResult>>> {
        let Some(context) = self.0.as_ref().filter(|context| context.is_repeat) else {
            return Ok(vec![None; count]);
        };
        if let Some(made) = &context.made {
            let published =
                |made: &MadeMessage| PublishResult { id: made.id, duplicate_of: made.duplicate_of };
            return Ok((0..count).map(|position| made.get(position).map(published)).collect());
        }
        let ids: Vec<MessageId> = (0..count).filter_map(|position| self.id(position)).collect();
        let mut last = removed::last_of(app, &ids).await?;
        for (position, id) in ids.iter().enumerate().rev() {
            if last.is_some_and(|last| last >= position) {
                break;
            }
            if app.inspect.message(*id).await?.is_some() {
                last = Some(position);
            }
        }
        // Messages are stored together or in order, so those before an existing one were created.
        let made = |(position, id): (usize, &MessageId)| {
            last.filter(|last| *last >= position)
                .map(|_| PublishResult { id: *id, duplicate_of: None })
        };
        Ok(ids.iter().enumerate().map(made).collect())
    }

    /// Records the created messages in the record of the key.
    pub(crate) async fn confirm(&self, published: &[PublishResult]) {
        let Some(claim) = self.0.as_ref().and_then(|context| context.claim.as_ref()) else {
            return;
        };
        let made = |one: &PublishResult| MadeMessage { id: one.id, duplicate_of: one.duplicate_of };
        claim.confirm(published.iter().map(made).collect()).await;
    }

    /// Returns whether a repeat may replace the message that its own is a duplicate of. A later message has
    /// replaced that of the first run, or came after it. False without a repeat.
    pub(crate) async fn replaces(&self, app: &App, published: &PublishResult) -> ApiResult<bool> {
        let context = self.0.as_ref().filter(|context| context.is_repeat);
        let (Some(context), Some(other)) = (context, published.duplicate_of) else {
            return Ok(false);
        };
        let other = app.inspect.message(other).await?;
        Ok(other.is_some_and(|other| other.message.created_at <= context.first_at))
    }

    /// Returns whether a repeated bulk command applies to a message: only if it existed, in its present state,
    /// when the key was first used.
    pub(crate) fn covers(&self, record: &MessageRecord) -> bool {
        let Some(context) = self.0.as_ref().filter(|context| context.is_repeat) else {
            return true;
        };
        let ended = record.ended_at.is_none_or(|ended_at| ended_at <= context.first_at);
        ended && record.message.created_at <= context.first_at
    }

    /// Returns whether a message was redriven since the key was first used.
    pub(crate) fn was_redriven(&self, record: &MessageRecord) -> bool {
        let Some(context) = self.0.as_ref().filter(|context| context.is_repeat) else {
            return false;
        };
        match record.ended_at {
            Some(ended_at) => ended_at > context.first_at,
            None => record.message.source == Source::Redriven,
        }
    }

    /// Returns the result of a command; for a repeat that finds the wanted state, that it was applied.
    pub(crate) fn commanded(
        &self,
        result: CommandResult,
        target: Option<MessageState>,
    ) -> CommandResult {
        let is_done = match result {
            CommandResult::Unknown => target.is_none(),
            CommandResult::Refused(state) => target == Some(state),
            _ => false,
        };
        if is_done && self.is_repeat() { CommandResult::Applied(1) } else { result }
    }
}

impl FromRequestParts<App> for Keyed {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(microsecond: i64) -> Timestamp {
        Timestamp::from_microsecond(microsecond).unwrap()
    }

    #[test]
    fn ids_repeat_and_follow_the_positions() {
        let first = Keyed::new(("place", "print"), at(1_772_000_000_000_123), 1);
        let again = Keyed::new(("place", "print"), at(1_772_000_000_000_123), 2);
        let ids: Vec<MessageId> = (0..5_000).filter_map(|place| first.id(place)).collect();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "in the order of their positions");
        assert!(ids.iter().all(|id| id.as_uuid().get_version_num() == 7));
        assert_eq!(ids[0].as_uuid().as_u128() >> 80, 1_772_000_000_000, "as old as the request");
        assert_eq!(first.id(7), again.id(7));
        assert!(!first.is_repeat() && again.is_repeat());
    }

    #[test]
    fn another_caller_request_or_instant_has_other_ids() {
        let one = Keyed::new(("place", "print"), at(5), 1).id(0);
        for other in [("elsewhere", "print"), ("place", "another"), ("placep", "rint")] {
            assert_ne!(one, Keyed::new(other, at(5), 1).id(0));
        }
        assert_ne!(one, Keyed::new(("place", "print"), at(6), 1).id(0));
        assert_eq!(Keyed::default().id(0), None, "without a key ids are new");
    }
}
