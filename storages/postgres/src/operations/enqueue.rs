//! Enqueue: a fast path for new messages, which are nearly all, and a careful path when a message of the batch
//! may be known already. Both store all or nothing.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use punctual::Result;
use punctual::backend::storage::{EnqueueResult, Entry};
use punctual::jiff::Timestamp;
use punctual::model::{Key, Message, MessageId, MessageState};
use punctual_columns::code::Code;
use punctual_columns::instant::micros;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::driver::{Cells as _, Driver};
use crate::error::StorageError;
use crate::inner::{Inner, attempt};
use crate::operations::batches::DueQueues;
use crate::operations::copy;
use crate::operations::deduplication::{DedupePlan, KnownMessages, is_plain, plan_batch};
use crate::pending_notifications::PendingNotifications;
use crate::row::{MessageArrays, StateArrays, record};
use crate::session::Session;
use crate::value::{Micros, Param};

/// Most rows of one statement with arrays.
pub(crate) const CHUNK: usize = 1_000;
/// From this number of rows on, COPY is faster than arrays.
const COPY_MIN: usize = 500;
/// How far the clock that made an id may have been ahead of the storage's when its message ended.
const ID_AHEAD_MAX: i64 = 24 * 60 * 60 * 1_000_000;

/// Result of storing a batch.
pub(crate) struct StoreResult {
    pub(crate) results: Vec<EnqueueResult>,
    /// Messages that no longer wait, because a message of their batch was replaced.
    pub(crate) freed: DueQueues,
}

impl Inner {
    /// Stores a batch and notifies the subscribers of its queues.
    pub(crate) async fn enqueue(
        self: &Arc<Self>,
        entries: &[Entry],
        now: Timestamp,
    ) -> Result<Vec<EnqueueResult>> {
        let is_plain = is_plain_batch(entries) && !may_be_repeated(entries, now);
        let StoreResult { results, freed } = attempt!(self, |session, tries| async {
            if is_plain && tries == 0 && self.store_fast(session, entries).await? {
                let results = vec![EnqueueResult::Stored; entries.len()];
                return Ok(StoreResult { results, freed: Vec::new() });
            }
            session.begin().await?;
            let stored = self.store(session, entries, tries, now).await?;
            session.commit().await?;
            Ok(stored)
        })?;
        let stored = entries.iter().zip(&results);
        let stored = stored.filter(|(_, result)| !matches!(result, EnqueueResult::Duplicate(_)));
        let mut notifications = PendingNotifications::default();
        for (entry, _) in stored {
            notifications.add_message(&entry.message);
        }
        notifications.add_due_queues(freed);
        self.notify_committed(notifications).await;
        Ok(results)
    }

    /// Stores a whole batch, or nothing when any message of it may be known.
    async fn store_fast(
        &self,
        session: &mut Session<'_>,
        entries: &[Entry],
    ) -> Result<bool, StorageError> {
        let range = Range::of(entries);
        let entries = &*in_order(entries);
        let stored = if entries.len() >= COPY_MIN && !session.is_unnamed() {
            self.copy(session, entries, &range).await
        } else {
            self.insert_fast(session, entries, &range).await
        };
        match stored {
            Err(failure) if failure.is_unique_violation() => {
                if session.is_open() {
                    session.roll_back().await?;
                }
                Ok(false)
            }
            other => other,
        }
    }

    async fn insert_fast(
        &self,
        session: &mut Session<'_>,
        entries: &[Entry],
        range: &Range,
    ) -> Result<bool, StorageError> {
        let several = entries.len() > CHUNK;
        if several {
            session.begin().await?;
        }
        for some in entries.chunks(CHUNK) {
            let columns = MessageArrays::of(some.iter().map(|entry| &*entry.message))?;
            let dedupes: Vec<&str> = dedupes_of(some).collect();
            let mut params = columns.params();
            params.extend(range.params());
            params.push((&dedupes, Type::TEXT_ARRAY));
            params.extend(columns.relations());
            if session.execute(&self.sql.store, &params).await? < some.len() as u64 {
                if several {
                    session.roll_back().await?;
                }
                return Ok(false);
            }
        }
        if several {
            session.commit().await?;
        }
        Ok(true)
    }

    async fn copy(
        &self,
        session: &mut Session<'_>,
        entries: &[Entry],
        range: &Range,
    ) -> Result<bool, StorageError> {
        session.begin().await?;
        copy::copy(session.client(), &self.schema.quoted, entries).await?;
        if self.has_none_ended(session, entries, range).await?
            && self.has_no_reserved_key(session, entries).await?
        {
            session.commit().await?;
            Ok(true)
        } else {
            session.roll_back().await?;
            Ok(false)
        }
    }

    /// Returns whether no message of a batch has ended here before. Other messages may have ids between those
    /// of a large batch, so the range is queried first and each id only when the range is not empty.
    async fn has_none_ended(
        &self,
        session: &Session<'_>,
        entries: &[Entry],
        range: &Range,
    ) -> Result<bool, StorageError> {
        if session.query(&self.sql.ended_in_range, &range.params()).await?.is_empty() {
            return Ok(true);
        }
        for some in entries.chunks(CHUNK) {
            let ids: Vec<Uuid> = some.iter().map(|entry| entry.message.id.as_uuid()).collect();
            let params: [Param<'_>; 2] =
                [(&ids, Type::UUID_ARRAY), (&range.since, Type::TIMESTAMPTZ)];
            if !session.query(&self.sql.ended_ids, &params).await?.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns whether no key of a batch is reserved for a period; expired reservations count, as no clock is
    /// read.
    async fn has_no_reserved_key(
        &self,
        session: &Session<'_>,
        entries: &[Entry],
    ) -> Result<bool, StorageError> {
        let keys: Vec<&str> = dedupes_of(entries).collect();
        for some in keys.chunks(CHUNK) {
            if !session
                .query(&self.sql.reserved_keys, &[(&some, Type::TEXT_ARRAY)])
                .await?
                .is_empty()
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Stores a batch on the careful path, inside a transaction: reads what is known, plans, writes.
    pub(crate) async fn store(
        &self,
        session: &impl Driver,
        entries: &[Entry],
        tries: u32,
        now: Timestamp,
    ) -> Result<StoreResult, StorageError> {
        if tries > 1 {
            // Several callers want the same key at once; from now on one after the other.
            let lock = "SELECT pg_advisory_xact_lock(hashtextextended($1, 1))";
            session.query_text(lock, &[(&self.schema.name, Type::TEXT)]).await?;
        }
        let messages = || entries.iter().map(|entry| &*entry.message);
        let mut known = self.known(session, messages()).await?;
        let reservations = self.reservations(session, entries, (now, &mut known)).await?;
        let plan = plan_batch(entries, known);
        let left = self.remove_replaced(session, &plan).await?;
        let mut stored: Vec<&Message> =
            plan.stored.iter().map(|index| &*entries[*index].message).collect();
        stored.sort_unstable_by_key(|message| order(message));
        let waiting = self.batches_to_wait_for(session, &stored).await?;
        for some in stored.chunks(CHUNK) {
            let (mut columns, standings) = (MessageArrays::default(), StateArrays::new(some.len()));
            for message in some {
                columns.push(message, waiting.due_at(message))?;
            }
            let mut params = columns.params();
            params.extend(standings.params());
            params.extend(columns.relations());
            if session.execute(&self.sql.insert, &params).await? < some.len() as u64 {
                return Err(StorageError::Raced);
            }
        }
        if may_be_repeated(entries, now) && self.has_ended(session, &stored, entries).await? {
            return Err(StorageError::Raced);
        }
        self.reserve_keys(session, &stored, reservations, now).await?;
        let freed = self.end_batches(session, &left).await?;
        Ok(StoreResult { results: plan.results, freed })
    }

    /// Returns whether any message that was just written has ended before: an earlier call stored it, and it was
    /// settled between the read of known ids and the write. Its row blocked ours until then, so it is visible now.
    async fn has_ended(
        &self,
        session: &impl Driver,
        stored: &[&Message],
        entries: &[Entry],
    ) -> Result<bool, StorageError> {
        let since = Range::of(entries).since;
        for some in stored.chunks(CHUNK) {
            let ids: Vec<Uuid> = some.iter().map(|message| message.id.as_uuid()).collect();
            let params: [Param<'_>; 2] = [(&ids, Type::UUID_ARRAY), (&since, Type::TIMESTAMPTZ)];
            if !session.query(&self.sql.ended_ids, &params).await?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Deletes replaced messages; returns the batches they belonged to.
    async fn remove_replaced(
        &self,
        session: &impl Driver,
        plan: &DedupePlan,
    ) -> Result<BTreeSet<Uuid>, StorageError> {
        let mut left = BTreeSet::new();
        let uuids = |ids: &[MessageId]| ids.iter().map(|id| id.as_uuid()).collect::<Vec<Uuid>>();
        if !plan.replaced.is_empty() {
            let ids = uuids(&plan.replaced);
            let gone = session.query(&self.sql.remove_alive, &[(&ids, Type::UUID_ARRAY)]).await?;
            if gone.len() < ids.len() {
                return Err(StorageError::Raced);
            }
            for row in &gone {
                left.extend(row.cell::<Option<Uuid>>(0)?);
            }
        }
        if !plan.returned.is_empty() {
            let ids = uuids(&plan.returned);
            session.execute(&self.sql.remove_ended, &[(&ids, Type::UUID_ARRAY)]).await?;
        }
        Ok(left)
    }

    /// Reads what is known of the ids and keys of messages; locks the alive ones.
    pub(crate) async fn known<'a>(
        &self,
        session: &impl Driver,
        messages: impl Iterator<Item = &'a Message>,
    ) -> Result<KnownMessages, StorageError> {
        let mut known = KnownMessages::default();
        let messages: Vec<&Message> = messages.collect();
        for some in messages.chunks(CHUNK) {
            let ids: Vec<Uuid> = some.iter().map(|message| message.id.as_uuid()).collect();
            let dedupes: Vec<&str> =
                some.iter().filter_map(|message| Some(message.dedupe.as_ref()?.as_str())).collect();
            let params = [(&ids as _, Type::UUID_ARRAY), (&dedupes as _, Type::TEXT_ARRAY)];
            for row in session.query(&self.sql.alive, &params).await? {
                let id = MessageId::from_uuid(row.cell(0)?);
                known.alive(id, row.cell(1)?, MessageState::from_code(row.cell(2)?)?);
            }
            for row in session.query(&self.sql.ended, &[(&ids, Type::UUID_ARRAY)]).await? {
                known.ended(record(&row)?);
            }
        }
        Ok(known)
    }
}

/// Range of the ids of a batch, and the earliest instant at which one of them can have ended.
pub(crate) struct Range {
    first: Uuid,
    last: Uuid,
    since: Micros,
}

impl Range {
    pub(crate) fn of(entries: &[Entry]) -> Self {
        let ids = || entries.iter().map(|entry| entry.message.id.as_uuid());
        let first = ids().min().unwrap_or_default();
        // Only an id of version 7 contains its creation time.
        let is_timed = ids().all(|id| id.get_version_num() == 7);
        let made = i64::try_from(first.as_u128() >> 80).unwrap_or_default().saturating_mul(1_000);
        let since = if is_timed { Micros(made.saturating_sub(ID_AHEAD_MAX)) } else { Micros::MIN };
        Self { first, last: ids().max().unwrap_or_default(), since }
    }

    pub(crate) fn params(&self) -> [Param<'_>; 3] {
        [(&self.first, Type::UUID), (&self.last, Type::UUID), (&self.since, Type::TIMESTAMPTZ)]
    }
}

pub(crate) fn dedupes_of(entries: &[Entry]) -> impl Iterator<Item = &str> {
    entries.iter().filter_map(|entry| Some(entry.message.dedupe.as_ref()?.as_str()))
}

/// Returns the order in which rows are written: the same for all callers, so that of two that store the same
/// keys and ids one waits for the other, and they never deadlock.
fn order(message: &Message) -> (Option<&str>, MessageId) {
    (message.dedupe.as_ref().map(Key::as_str), message.id)
}

fn in_order(entries: &[Entry]) -> Cow<'_, [Entry]> {
    if entries.is_sorted_by_key(|entry| order(&entry.message)) {
        return Cow::Borrowed(entries);
    }
    let mut sorted = entries.to_vec();
    sorted.sort_by(|one, other| order(&one.message).cmp(&order(&other.message)));
    Cow::Owned(sorted)
}

/// Returns whether an earlier call may have stored any message of a batch, which may end while this call stores it: a
/// message that was made before this call, or one whose id was.
fn may_be_repeated(entries: &[Entry], now: Timestamp) -> bool {
    has_older_id(entries)
        || entries.iter().any(|entry| micros(entry.message.created_at) < micros(now))
}

/// Returns whether the id of any message may be older than the message, because the application gave it.
pub(crate) fn has_older_id(entries: &[Entry]) -> bool {
    entries.iter().any(|entry| {
        let id = entry.message.id.as_uuid();
        // Only an id of version 7 contains its creation time.
        let made = i64::try_from(id.as_u128() >> 80).unwrap_or_default();
        id.get_version_num() != 7 || made < entry.message.created_at.as_millisecond()
    })
}

/// Returns whether all entries are plain and none repeats the id or key of another.
pub(crate) fn is_plain_batch(entries: &[Entry]) -> bool {
    let mut ids = HashSet::with_capacity(entries.len());
    let mut dedupes = HashSet::new();
    entries.iter().all(|entry| is_plain(entry) && ids.insert(entry.message.id))
        && dedupes_of(entries).all(|dedupe| dedupes.insert(dedupe))
}
