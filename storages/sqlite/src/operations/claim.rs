//! Claim. The index of pending messages is scanned one priority at a time, each only up to `now`, so a million
//! messages of the future cost nothing. Blocked messages are skipped. Messages that share a limit are in a
//! separate part of the index, limit by limit; of each limit only the first few are read, and none of one that
//! is reached. So a claim costs one step for each limit, however many messages wait for it. Messages of other
//! topics are skipped; `claim_cursor.rs` keeps the cost of many of them low.

use std::collections::HashSet;

use punctual::backend::storage::{Claim, ClaimedMessage, TopicFilter};
use punctual::jiff::Timestamp;
use punctual::model::{JobName, Lease, MessageState, Priority};
use punctual_columns::instant::{instant, micros};
use punctual_columns::message::NameCache;
use rusqlite::types::Value;
use rusqlite::{
    Connection, OptionalExtension as _, Row, StatementStatus, params, params_from_iter,
};

use super::limits::{SharedLimit, SharedLimits, next_limit, pending_of_limit};
use super::reserved_keys::release_key;
use super::topics::{condition, list};
use crate::effects::Effects;
use crate::error::{StorageResult, skip_corrupt};
use crate::operations::claim_cursor::{ClaimCursors, ClaimScan, Position};
use crate::row::{CLAIM_COLUMNS, claimed_of};

/// First value above all priorities, which are 0 to 9.
pub(super) const ABOVE_ALL: u8 = 10;

/// Condition that a message `m` is not blocked: an exclusive one is blocked while its job is running, a
/// scheduled one while its job is paused.
pub(crate) const NOT_BLOCKED: &str = "(m.exclusive = 0 OR m.job IS NULL OR NOT EXISTS \
     (SELECT 1 FROM punctual_message r WHERE r.job = m.job AND r.state = 1)) \
     AND (m.source <> 1 OR m.job IS NULL OR NOT EXISTS \
     (SELECT 1 FROM punctual_job j WHERE j.name = m.job AND j.paused = 1))";

/// Next lower priority with a pending message.
pub(crate) const NEXT_PRIORITY: &str = "SELECT priority FROM punctual_message INDEXED BY punctual_message_pending \
     WHERE state = 0 AND queue = ?1 AND priority < ?2 ORDER BY priority DESC LIMIT 1";

const START: &str = "UPDATE punctual_message SET state = 1, attempt = attempt + 1, owner = ?2, \
     token = ?3, lease_until = ?4 WHERE id = ?1";

/// Number of running messages of a queue, of all owners.
const RUNNING: &str = "SELECT count(*) FROM punctual_message INDEXED BY punctual_message_running \
     WHERE state = 1 AND queue = ?1";

/// Claims due messages.
pub(crate) fn claim(
    transaction: &Connection,
    (claim, cursors): (&Claim, &ClaimCursors),
    now: Timestamp,
    effects: &mut Effects,
) -> StorageResult<Vec<ClaimedMessage>> {
    let limit = limit(transaction, claim)?;
    if claim.topics.is_none() {
        return Ok(Vec::new());
    }
    let scan = cursors.begin(&claim.queue, &claim.topics, micros(now));
    let mut run = ClaimRun::new(claim, limit, scan);
    let first = claim.first.map(Priority::level);
    if let Some(priority) = first {
        run.find(transaction, priority, micros(now))?;
    }
    let mut below = ABOVE_ALL;
    while run.found.len() < limit {
        let Some(priority) = next_priority(transaction, claim, below)? else { break };
        if first != Some(priority) {
            run.find(transaction, priority, micros(now))?;
        }
        below = priority;
    }
    let (found, source) = (run.found.len(), (&claim.queue, &claim.topics));
    cursors.end(source, &run.scan, found, micros(now));
    let claimed = run.start(transaction)?;
    if !claimed.is_empty() {
        effects.was_taken(&claim.queue);
        let (pending, running) = (Some(MessageState::Pending), Some(MessageState::Running));
        effects.moved(&claim.queue, claimed.len(), pending, running);
    }
    Ok(claimed)
}

/// Returns how many messages may be claimed at most.
fn limit(transaction: &Connection, claim: &Claim) -> StorageResult<usize> {
    let Some(running_max) = claim.running_max else { return Ok(claim.limit) };
    let mut statement = transaction.prepare_cached(RUNNING)?;
    let running: i64 = statement.query_row([claim.queue.as_str()], |row| row.get(0))?;
    let running = usize::try_from(running).unwrap_or(usize::MAX);
    Ok(claim.limit.min(running_max.saturating_sub(running)))
}

/// Issues `count` tokens; returns the last one issued before.
pub(crate) fn next_tokens(transaction: &Connection, count: usize) -> StorageResult<u64> {
    let sql = "UPDATE punctual_counter SET value = value + ?1 WHERE name = 'token' \
               RETURNING value - ?1";
    let mut statement = transaction.prepare_cached(sql)?;
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let last: i64 = statement.query_row([count], |row| row.get(0))?;
    Ok(u64::try_from(last).unwrap_or(0))
}

fn next_priority(transaction: &Connection, claim: &Claim, below: u8) -> StorageResult<Option<u8>> {
    let mut statement = transaction.prepare_cached(NEXT_PRIORITY)?;
    let found = statement.query_row(params![claim.queue.as_str(), below], |row| row.get(0));
    Ok(found.optional()?)
}

struct ClaimRun<'a> {
    claim: &'a Claim,
    limit: usize,
    until: i64,
    /// Topics as a parameter of a statement.
    topics: Option<String>,
    scan: ClaimScan,
    /// Jobs of the found messages, which count as running.
    jobs: HashSet<JobName>,
    shared_limits: SharedLimits,
    names: NameCache,
    found: Vec<ClaimedMessage>,
}

/// Candidate among the first messages of a limit, with its position: due time and id.
struct Candidate {
    position: (i64, [u8; 16]),
    shared_limit: SharedLimit,
}

impl<'a> ClaimRun<'a> {
    fn new(claim: &'a Claim, limit: usize, scan: ClaimScan) -> Self {
        let (jobs, shared_limits, names) =
            (HashSet::new(), SharedLimits::default(), NameCache::default());
        let (until, topics) = (micros(claim.until), list(&claim.topics));
        Self { claim, limit, until, topics, scan, jobs, shared_limits, names, found: Vec::new() }
    }

    /// Collects the due messages of a priority, in order.
    fn find(&mut self, transaction: &Connection, priority: u8, now: i64) -> StorageResult<()> {
        let mut limited = self.candidates(transaction, priority, now)?.into_iter().peekable();
        let from = self.scan.from(priority);
        let sql = due_of_priority(&self.claim.topics, from.is_some());
        let mut statement = transaction.prepare_cached(&sql)?;
        statement.reset_status(StatementStatus::VmStep);
        let mut values: Vec<Value> = vec![
            self.claim.queue.as_str().to_owned().into(),
            i64::from(priority).into(),
            now.into(),
        ];
        if from.is_some() || self.topics.is_some() {
            values.push(self.topics.clone().map_or(Value::Null, Value::from));
        }
        if let Some((due_at, id)) = from {
            values.extend([Value::from(due_at), Value::from(id.to_vec())]);
        }
        let mut rows = statement.query(params_from_iter(values))?;
        // The end of the due messages, unless the limit is reached before it.
        let mut reached = Some((now, [u8::MAX; 16]));
        while self.found.len() < self.limit {
            let row = rows.next()?;
            let before = match row {
                Some(row) if limited.peek().is_some() => Some((row.get(10)?, row.get(0)?)),
                _ => None,
            };
            let goes_first = |one: &Candidate| before.is_none_or(|before| one.position < before);
            while let Some(candidate) = limited.next_if(goes_first) {
                self.take_candidate(transaction, priority, &candidate)?;
            }
            let Some(row) = row else { break };
            if self.found.len() < self.limit {
                self.take(row, priority)?;
            }
            if self.found.len() == self.limit {
                reached = self.last_position();
            }
        }
        drop(rows);
        let steps = statement.get_status(StatementStatus::VmStep);
        self.scan.record_scan(priority, reached.max(from), steps);
        Ok(())
    }

    /// Returns the position of the last found message; none when it shares a limit, because those are not found
    /// by position.
    fn last_position(&self) -> Option<Position> {
        let last = self.found.last().filter(|last| last.message.limit().is_none())?;
        Some((micros(last.due_at), *last.message.id.as_uuid().as_bytes()))
    }

    /// Returns the first due messages of the limits of a priority that are not reached, in order; no more than
    /// can be claimed.
    fn candidates(
        &mut self,
        transaction: &Connection,
        priority: u8,
        now: i64,
    ) -> StorageResult<Vec<Candidate>> {
        let (queue, wanted) = (self.claim.queue.as_str(), self.limit - self.found.len());
        let (mut candidates, mut last) = (Vec::new(), SharedLimit::default());
        while let Some(shared_limit) = next_limit(transaction, (queue, priority), &last)? {
            last = shared_limit;
            let room = self.shared_limits.room(transaction, &last)?;
            let room = room.min(i64::try_from(wanted).unwrap_or(i64::MAX));
            if room == 0 {
                continue;
            }
            let fits = condition(&self.claim.topics, 7);
            let sql = pending_of_limit(&format!("{NOT_BLOCKED} AND {fits}"));
            let mut statement = transaction.prepare_cached(&sql)?;
            let values =
                params![queue, priority, last.name, last.running_max, now, room, self.topics];
            let values = if self.topics.is_some() { values } else { &values[..6] };
            let mut rows = statement.query(values)?;
            while let Some(row) = rows.next()? {
                let position = (row.get(0)?, row.get(1)?);
                candidates.push(Candidate { position, shared_limit: last.clone() });
            }
            if candidates.len() / 2 > wanted {
                candidates.sort_unstable_by_key(|one| one.position);
                candidates.truncate(wanted);
            }
        }
        candidates.sort_unstable_by_key(|one| one.position);
        Ok(candidates)
    }

    /// Takes a candidate if its limit still has room: the limit may occur twice, with different maxima.
    fn take_candidate(
        &mut self,
        transaction: &Connection,
        priority: u8,
        candidate: &Candidate,
    ) -> StorageResult<()> {
        if self.found.len() == self.limit
            || self.shared_limits.room(transaction, &candidate.shared_limit)? == 0
        {
            return Ok(());
        }
        let sql = format!("SELECT {CLAIM_COLUMNS} FROM punctual_message WHERE id = ?1");
        let mut statement = transaction.prepare_cached(&sql)?;
        let mut rows = statement.query([candidate.position.1])?;
        if let Some(row) = rows.next()?
            && self.take(row, priority)?
        {
            self.shared_limits.start(&candidate.shared_limit);
        }
        Ok(())
    }

    /// Takes a message, unless it cannot be decoded or another one of its job was taken by this claim.
    fn take(&mut self, row: &Row<'_>, priority: u8) -> StorageResult<bool> {
        let queue = (self.claim.queue.as_str(), i16::from(priority));
        let lease = Lease { owner: self.claim.owner, token: 0, until: instant(self.until)? };
        let claimed = claimed_of(row, queue, &mut self.names, lease);
        let Some(claimed) = skip_corrupt(claimed)? else { return Ok(false) };
        if let Some(occurrence) = &claimed.message.occurrence {
            let is_first = self.jobs.insert(occurrence.job.clone());
            if claimed.message.exclusive && !is_first {
                return Ok(false);
            }
        }
        self.found.push(claimed);
        Ok(true)
    }

    /// Assigns leases to the found messages.
    fn start(mut self, transaction: &Connection) -> StorageResult<Vec<ClaimedMessage>> {
        if self.found.is_empty() {
            return Ok(self.found);
        }
        let owner = self.claim.owner.as_uuid();
        let mut token = next_tokens(transaction, self.found.len())?;
        let mut statement = transaction.prepare_cached(START)?;
        statement.raw_bind_parameter(2, owner.as_bytes())?;
        statement.raw_bind_parameter(4, self.until)?;
        for claimed in &mut self.found {
            token += 1;
            claimed.lease.token = token;
            claimed.attempt = claimed.attempt.saturating_add(1);
            let id = claimed.message.id.as_uuid();
            statement.raw_bind_parameter(1, id.as_bytes())?;
            statement.raw_bind_parameter(3, i64::try_from(token).unwrap_or(i64::MAX))?;
            statement.raw_execute()?;
            release_key(transaction, &claimed.message)?;
        }
        Ok(self.found)
    }
}

/// Selects the due messages of a priority that a filter accepts and that have no limit, oldest first;
/// optionally only those after a position.
pub(crate) fn due_of_priority(topics: &TopicFilter, has_cursor: bool) -> String {
    let fits = condition(topics, 4);
    let from = if has_cursor { " AND (m.due_at, m.id) > (?5, ?6)" } else { "" };
    format!(
        "SELECT {CLAIM_COLUMNS} FROM punctual_message m INDEXED BY punctual_message_pending \
         WHERE m.state = 0 AND m.queue = ?1 AND m.priority = ?2 AND m.lane IS NULL AND m.lane_max IS NULL \
         AND m.due_at <= ?3{from} AND {fits} AND {NOT_BLOCKED} ORDER BY m.due_at, m.id"
    )
}
