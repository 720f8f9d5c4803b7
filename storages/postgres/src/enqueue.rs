//! Enqueue: the quick way for what is new, which is nearly everything, and the careful way when
//! something of the batch may be known. Both are all or nothing.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use punctual::Result;
use punctual::jiff::Timestamp;
use punctual::model::{Key, Message, MessageId, Queue, State};
use punctual::storage::{Enqueued, Entry, Line};
use punctual_rows::code::Code;
use punctual_rows::instant::micros_up;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::batches::Freed;
use crate::columns::{Messages, Standings, record};
use crate::copy;
use crate::driver::{Cells as _, Driver};
use crate::failure::Failure;
use crate::inner::{Inner, attempt};
use crate::judge::{Judged, Known, is_plain, judge};
use crate::session::Session;
use crate::ties::lane_of;
use crate::value::Micros;

/// The most rows of one statement with arrays.
pub(crate) const CHUNK: usize = 1_000;
/// From this many rows on, COPY is faster than arrays.
const COPY_MIN: usize = 500;
/// How far the clock that made an id may have been ahead of the storage's when its message ended.
const ID_AHEAD_MAX: i64 = 24 * 60 * 60 * 1_000_000;

/// What became of a batch.
pub(crate) struct Stored {
    pub(crate) answers: Vec<Enqueued>,
    /// What no longer waits, because something gave way.
    pub(crate) freed: Freed,
}

impl Inner {
    /// Stores a batch and tells who waits for it.
    pub(crate) async fn enqueue(
        self: &Arc<Self>,
        entries: &[Entry],
        now: Timestamp,
    ) -> Result<Vec<Enqueued>> {
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let quick = is_new_in_itself(entries);
        let Stored { answers, freed } = attempt!(self, |held, tries| async {
            if quick && tries == 0 && self.store_quickly(held, entries).await? {
                let answers = vec![Enqueued::Stored; entries.len()];
                return Ok(Stored { answers, freed: Vec::new() });
            }
            held.begin().await?;
            let stored = self.store(held, entries, tries, now).await?;
            held.commit().await?;
            Ok(stored)
        })?;
        let stored = entries.iter().zip(&answers);
        let stored = stored.filter(|(_, answer)| !matches!(answer, Enqueued::Duplicate(_)));
        self.tell_due(stored.map(|(entry, _)| &*entry.message));
        self.tell_all(freed);
        Ok(answers)
    }

    /// Tells each queue once, with the earliest instant.
    pub(crate) fn tell_due<'a>(self: &Arc<Self>, messages: impl Iterator<Item = &'a Message>) {
        let mut first: HashMap<&Queue, i64> = HashMap::new();
        for message in messages {
            if lane_of(message).is_some() {
                self.marks.has_limited(&message.queue, true);
            }
            let due_at = micros_up(message.due_at);
            let known = first.entry(&message.queue).or_insert(due_at);
            *known = due_at.min(*known);
        }
        for (queue, due_at) in first {
            self.tell(Line::Queue(queue.clone()), due_at);
        }
    }

    /// Stores all of a batch, or nothing when any of it may be known.
    async fn store_quickly(
        &self,
        held: &mut Session<'_>,
        entries: &[Entry],
    ) -> Result<bool, Failure> {
        let range = Range::of(entries);
        let entries = &*in_order(entries);
        let stored = if entries.len() >= COPY_MIN && !held.is_unnamed() {
            self.copy(held, entries, &range).await
        } else {
            self.insert_quickly(held, entries, &range).await
        };
        match stored {
            Err(failure) if failure.is_duplicate() => {
                if held.is_open() {
                    held.roll_back().await?;
                }
                Ok(false)
            }
            other => other,
        }
    }

    async fn insert_quickly(
        &self,
        held: &mut Session<'_>,
        entries: &[Entry],
        range: &Range,
    ) -> Result<bool, Failure> {
        let several = entries.len() > CHUNK;
        if several {
            held.begin().await?;
        }
        for some in entries.chunks(CHUNK) {
            let columns = Messages::of(some.iter().map(|entry| &*entry.message))?;
            let dedupes: Vec<&str> = dedupes_of(some).collect();
            let mut params = columns.params();
            params.extend(range.params());
            params.push((&dedupes, Type::TEXT_ARRAY));
            params.extend(columns.ties());
            if held.execute(&self.sql.store, &params).await? < some.len() as u64 {
                if several {
                    held.roll_back().await?;
                }
                return Ok(false);
            }
        }
        if several {
            held.commit().await?;
        }
        Ok(true)
    }

    async fn copy(
        &self,
        held: &mut Session<'_>,
        entries: &[Entry],
        range: &Range,
    ) -> Result<bool, Failure> {
        held.begin().await?;
        copy::copy(held.client(), &self.schema.quoted, entries).await?;
        if self.is_unknown(held, entries, range).await? && self.is_unheld(held, entries).await? {
            held.commit().await?;
            Ok(true)
        } else {
            held.roll_back().await?;
            Ok(false)
        }
    }

    /// Whether nothing of a batch has ended here before. Others' messages may lie between the ids of a
    /// large batch, so the range is asked first and each id only when that is not enough.
    async fn is_unknown(
        &self,
        held: &Session<'_>,
        entries: &[Entry],
        range: &Range,
    ) -> Result<bool, Failure> {
        if held.query(&self.sql.known, &range.params()).await?.is_empty() {
            return Ok(true);
        }
        for some in entries.chunks(CHUNK) {
            let ids: Vec<Uuid> = some.iter().map(|entry| entry.message.id.as_uuid()).collect();
            let params: [crate::value::Param<'_>; 2] =
                [(&ids, Type::UUID_ARRAY), (&range.since, Type::TIMESTAMPTZ)];
            if !held.query(&self.sql.known_exactly, &params).await?.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether nobody holds a key of a batch for a time, as far as can be said without a clock.
    async fn is_unheld(&self, held: &Session<'_>, entries: &[Entry]) -> Result<bool, Failure> {
        let keys: Vec<&str> = dedupes_of(entries).collect();
        for some in keys.chunks(CHUNK) {
            if !held.query(&self.sql.held_keys, &[(&some, Type::TEXT_ARRAY)]).await?.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The careful way, inside a transaction: looks at what is known, judges, writes.
    pub(crate) async fn store(
        &self,
        held: &impl Driver,
        entries: &[Entry],
        tries: u32,
        now: Timestamp,
    ) -> Result<Stored, Failure> {
        if tries > 1 {
            // Many want the same key at once; from now on one after the other.
            let turn = "SELECT pg_advisory_xact_lock(hashtextextended($1, 1))";
            held.ask(turn, &[(&self.schema.name, Type::TEXT)]).await?;
        }
        let messages = || entries.iter().map(|entry| &*entry.message);
        let mut known = self.known(held, messages()).await?;
        let holders = self.holders(held, entries, (now, &mut known)).await?;
        let judged = judge(entries, known);
        let left = self.make_room(held, &judged).await?;
        let mut stored: Vec<&Message> =
            judged.stored.iter().map(|place| &*entries[*place].message).collect();
        stored.sort_unstable_by_key(|message| order(message));
        let waiting = self.waiting_for(held, &stored).await?;
        for some in stored.chunks(CHUNK) {
            let (mut columns, standings) = (Messages::default(), Standings::new(some.len()));
            for message in some {
                columns.push(message, waiting.due_at(message))?;
            }
            let mut params = columns.params();
            params.extend(standings.params());
            params.extend(columns.ties());
            if held.execute(&self.sql.insert, &params).await? < some.len() as u64 {
                return Err(Failure::Raced);
            }
        }
        self.hold_keys(held, &stored, holders, now).await?;
        let freed = self.end_batches(held, &left).await?;
        Ok(Stored { answers: judged.answers, freed })
    }

    /// Takes out what gives way; answers the batches it was of.
    async fn make_room(
        &self,
        held: &impl Driver,
        judged: &Judged,
    ) -> Result<BTreeSet<Uuid>, Failure> {
        let mut left = BTreeSet::new();
        let uuids = |ids: &[MessageId]| ids.iter().map(|id| id.as_uuid()).collect::<Vec<Uuid>>();
        if !judged.replaced.is_empty() {
            let ids = uuids(&judged.replaced);
            let gone = held.query(&self.sql.remove_alive, &[(&ids, Type::UUID_ARRAY)]).await?;
            if gone.len() < ids.len() {
                return Err(Failure::Raced);
            }
            for row in &gone {
                left.extend(row.cell::<Option<Uuid>>(0)?);
            }
        }
        if !judged.returned.is_empty() {
            let ids = uuids(&judged.returned);
            held.execute(&self.sql.remove_ended, &[(&ids, Type::UUID_ARRAY)]).await?;
        }
        Ok(left)
    }

    /// What is known of the ids and keys of messages; what is alive stays locked.
    pub(crate) async fn known<'a>(
        &self,
        held: &impl Driver,
        messages: impl Iterator<Item = &'a Message>,
    ) -> Result<Known, Failure> {
        let mut known = Known::default();
        let messages: Vec<&Message> = messages.collect();
        for some in messages.chunks(CHUNK) {
            let ids: Vec<Uuid> = some.iter().map(|message| message.id.as_uuid()).collect();
            let dedupes: Vec<&str> =
                some.iter().filter_map(|message| Some(message.dedupe.as_ref()?.as_str())).collect();
            let params = [(&ids as _, Type::UUID_ARRAY), (&dedupes as _, Type::TEXT_ARRAY)];
            for row in held.query(&self.sql.alive, &params).await? {
                let id = MessageId::from_uuid(row.cell(0)?);
                known.alive(id, row.cell(1)?, State::from_code(row.cell(2)?)?);
            }
            for row in held.query(&self.sql.ended, &[(&ids, Type::UUID_ARRAY)]).await? {
                known.ended(record(&row)?);
            }
        }
        Ok(known)
    }
}

/// Between which ids a batch lies, and since when any of it can have ended.
pub(crate) struct Range {
    first: Uuid,
    last: Uuid,
    since: Micros,
}

impl Range {
    pub(crate) fn of(entries: &[Entry]) -> Self {
        let ids = || entries.iter().map(|entry| entry.message.id.as_uuid());
        let first = ids().min().unwrap_or_default();
        // Only an id of version 7 says when it was made.
        let is_timed = ids().all(|id| id.get_version_num() == 7);
        let made = i64::try_from(first.as_u128() >> 80).unwrap_or_default().saturating_mul(1_000);
        let since = if is_timed { Micros(made.saturating_sub(ID_AHEAD_MAX)) } else { Micros::MIN };
        Self { first, last: ids().max().unwrap_or_default(), since }
    }

    pub(crate) fn params(&self) -> [crate::value::Param<'_>; 3] {
        [(&self.first, Type::UUID), (&self.last, Type::UUID), (&self.since, Type::TIMESTAMPTZ)]
    }
}

pub(crate) fn dedupes_of(entries: &[Entry]) -> impl Iterator<Item = &str> {
    entries.iter().filter_map(|entry| Some(entry.message.dedupe.as_ref()?.as_str()))
}

/// In which order rows are written: the same for everybody, so that of two who bring the same keys and
/// ids one waits for the other, and never each for the other.
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

/// Whether no entry asks for more than to be stored, and none repeats another.
pub(crate) fn is_new_in_itself(entries: &[Entry]) -> bool {
    let mut ids = HashSet::with_capacity(entries.len());
    let mut dedupes = HashSet::new();
    entries.iter().all(|entry| is_plain(entry) && ids.insert(entry.message.id))
        && dedupes_of(entries).all(|dedupe| dedupes.insert(dedupe))
}
