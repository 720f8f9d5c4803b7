//! A keyed request as its endpoint sees it: the identities it must use, and whether it was begun before.
//!
//! Everything is derived from what the record of the key holds, so that a repeat on another server, or after
//! a crash, finds what the first one has made.

mod changed;
pub(super) mod removed;

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use jiff::Timestamp;
use punctual::client::{Publish, PublishResult};
use punctual::model::{MessageId, MessageRecord, MessageState, Source};
use punctual::storage::CommandResult;
use sha2::{Digest, Sha256};

use super::claim::Claim;
use super::record::Made;
use crate::app::App;
use crate::problem::Answer;

/// How many positions fit into the twelve bits between version and variant of an id.
const POSITIONS: u64 = 1 << 12;

/// What an endpoint has to know of the key of its request; nothing without one.
#[derive(Clone, Default)]
pub(crate) struct Keyed(Option<Seen>);

#[derive(Clone)]
struct Seen {
    /// Differs for every caller, key, request and first instant.
    seed: [u8; 32],
    first_at: Timestamp,
    is_repeat: bool,
    /// What an earlier run has made, when it got so far as to say so.
    made: Option<Vec<Made>>,
    /// Where this run says what it has made.
    claim: Option<Claim>,
}

impl Keyed {
    /// Returns what belongs to a key: where its record is kept, its request, and when it was first seen.
    pub(super) fn new((place, fingerprint): (&str, &str), first_at: Timestamp, runs: u32) -> Self {
        let mut hash = Sha256::new();
        for part in [place.as_bytes(), fingerprint.as_bytes()] {
            hash.update(part.len().to_le_bytes());
            hash.update(part);
        }
        hash.update(first_at.as_microsecond().to_le_bytes());
        let (seed, is_repeat) = (hash.finalize().into(), runs > 1);
        Self(Some(Seen { seed, first_at, is_repeat, made: None, claim: None }))
    }

    /// With what an earlier run has said that it made.
    pub(super) fn with_made(self, made: Option<Vec<Made>>) -> Self {
        Self(self.0.map(|seen| Seen { made, ..seen }))
    }

    /// With the right under which the request runs.
    pub(super) fn of(self, claim: Claim) -> Self {
        Self(self.0.map(|seen| Seen { claim: Some(claim), ..seen }))
    }

    /// Whether the request was begun before and may have had its effect.
    pub(crate) fn is_repeat(&self) -> bool {
        self.0.as_ref().is_some_and(|seen| seen.is_repeat)
    }

    /// Returns when the request was first seen; without a key that is now.
    pub(crate) fn first_at(&self, app: &App) -> Timestamp {
        self.0.as_ref().map_or_else(|| app.clock.now(), |seen| seen.first_at)
    }

    /// Returns the identity of what the request makes at a position, the same for every repeat.
    ///
    /// It is of version 7: as old as the first request, and in the order of the positions. Storages look for a
    /// known id by its age, and what is due at the same instant is handled in the order of ids.
    pub(crate) fn id(&self, position: usize) -> Option<MessageId> {
        let seen = self.0.as_ref()?;
        let position = position as u64;
        let mut hash = Sha256::new();
        hash.update(seen.seed);
        hash.update(position.to_le_bytes());
        let hash = hash.finalize();
        let bits = hash.iter().take(8).fold(0_u64, |bits, byte| (bits << 8) | u64::from(*byte));
        let millisecond = u64::try_from(seen.first_at.as_millisecond()).unwrap_or(0);
        let millisecond = millisecond.saturating_add(position / POSITIONS);
        let high = (millisecond << 16) | 0x7000 | (position % POSITIONS);
        Some(MessageId::from_uuid(removed::signed(high, (bits >> 2) | (0b10 << 62))))
    }

    /// Gives a message the identity and the instant of its request. One for a transport is stored first, since
    /// only a storage knows again what it has taken.
    pub(crate) fn identified(&self, publish: Publish, position: usize) -> Publish {
        match (self.id(position), &self.0) {
            (Some(id), Some(seen)) => publish.id(id).created_at(seen.first_at).durable(),
            _ => publish,
        }
    }

    /// Returns what an earlier run of this request has made, position by position, also what has ended or was
    /// deleted over this API since; nothing for what is still to be made.
    pub(crate) async fn made(&self, app: &App, count: usize) -> Answer<Vec<Option<PublishResult>>> {
        let Some(seen) = self.0.as_ref().filter(|seen| seen.is_repeat) else {
            return Ok(vec![None; count]);
        };
        if let Some(made) = &seen.made {
            let published =
                |made: &Made| PublishResult { id: made.id, duplicate_of: made.duplicate_of };
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
        // They are stored all together or in their order: what comes before one that was made was made.
        let made = |(position, id): (usize, &MessageId)| {
            last.filter(|last| *last >= position)
                .map(|_| PublishResult { id: *id, duplicate_of: None })
        };
        Ok(ids.iter().enumerate().map(made).collect())
    }

    /// Keeps in the record of the key what was made.
    pub(crate) async fn confirm(&self, published: &[PublishResult]) {
        let Some(claim) = self.0.as_ref().and_then(|seen| seen.claim.as_ref()) else { return };
        let made = |one: &PublishResult| Made { id: one.id, duplicate_of: one.duplicate_of };
        claim.confirm(published.iter().map(made).collect()).await;
    }

    /// Whether a repeat may replace the message that its own is a duplicate of: one that came later has replaced
    /// what the first run made, or came after it. Without a repeat there is nothing to replace any more.
    pub(crate) async fn replaces(&self, app: &App, published: &PublishResult) -> Answer<bool> {
        let seen = self.0.as_ref().filter(|seen| seen.is_repeat);
        let (Some(seen), Some(other)) = (seen, published.duplicate_of) else { return Ok(false) };
        let other = app.inspect.message(other).await?;
        Ok(other.is_some_and(|other| other.message.created_at <= seen.first_at))
    }

    /// Whether a repeated command for many is still for a message: only for one that was there, and as it was,
    /// when the request was first seen.
    pub(crate) fn covers(&self, record: &MessageRecord) -> bool {
        let Some(seen) = self.0.as_ref().filter(|seen| seen.is_repeat) else { return true };
        let ended = record.ended_at.is_none_or(|ended_at| ended_at <= seen.first_at);
        ended && record.message.created_at <= seen.first_at
    }

    /// Whether a message was sent again since the request was first seen.
    pub(crate) fn was_redriven(&self, record: &MessageRecord) -> bool {
        let Some(seen) = self.0.as_ref().filter(|seen| seen.is_repeat) else { return false };
        match record.ended_at {
            Some(ended_at) => ended_at > seen.first_at,
            None => record.message.source == Source::Redriven,
        }
    }

    /// Reads what a command came to: of a repeat that finds what it wants, that it was applied.
    pub(crate) fn commanded(
        &self,
        answer: CommandResult,
        wanted: Option<MessageState>,
    ) -> CommandResult {
        let is_done = match answer {
            CommandResult::Unknown => wanted.is_none(),
            CommandResult::Refused(state) => wanted == Some(state),
            _ => false,
        };
        if is_done && self.is_repeat() { CommandResult::Applied(1) } else { answer }
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
    fn identities_repeat_and_follow_the_positions() {
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
    fn another_caller_request_or_instant_has_other_identities() {
        let one = Keyed::new(("place", "print"), at(5), 1).id(0);
        for other in [("elsewhere", "print"), ("place", "another"), ("placep", "rint")] {
            assert_ne!(one, Keyed::new(other, at(5), 1).id(0));
        }
        assert_ne!(one, Keyed::new(("place", "print"), at(6), 1).id(0));
        assert_eq!(Keyed::default().id(0), None, "without a key ids are new");
    }
}
