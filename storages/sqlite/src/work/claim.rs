//! Claim. The index of pending messages is walked one priority at a time, each only up to `now`, so a
//! million messages of the future cost nothing. What has to wait for its turn is passed over. Messages that
//! share a limit lie apart from the rest, lane by lane; of each lane only the first few are looked at, and
//! none of one that is full. So a claim costs a step for each lane, however many wait in it. Messages of
//! topics that are not wanted are passed over; `marks.rs` sees to it that many of them cost little.

use std::collections::HashSet;

use punctual::jiff::Timestamp;
use punctual::model::{JobName, Lease, Priority, State};
use punctual::storage::{Claim, Claimed, TopicFilter};
use punctual_rows::instant::{instant, micros};
use punctual_rows::message::Names;
use rusqlite::types::Value;
use rusqlite::{
    Connection, OptionalExtension as _, Row, StatementStatus, params, params_from_iter,
};

use super::hold::free;
use super::lane::{Lane, Lanes, next_lane, pending_of_lane};
use super::topics::{condition, list};
use crate::effects::Effects;
use crate::fault::{Tried, passed_over};
use crate::marks::{Marks, Place, Walk};
use crate::row::{CLAIM_COLUMNS, claimed_of};

/// Priorities are 0 to 9.
pub(super) const ABOVE_ALL: u8 = 10;

/// Whether a message `m` may be handed out: an exclusive one not while its job is running, a scheduled
/// one not while its job is paused.
pub(crate) const NOT_WAITING: &str = "(m.exclusive = 0 OR m.job IS NULL OR NOT EXISTS \
     (SELECT 1 FROM punctual_message r WHERE r.job = m.job AND r.state = 1)) \
     AND (m.source <> 1 OR m.job IS NULL OR NOT EXISTS \
     (SELECT 1 FROM punctual_job j WHERE j.name = m.job AND j.paused = 1))";

/// The next lower priority that has anything pending.
pub(crate) const NEXT_PRIORITY: &str = "SELECT priority FROM punctual_message INDEXED BY punctual_message_pending \
     WHERE state = 0 AND queue = ?1 AND priority < ?2 ORDER BY priority DESC LIMIT 1";

const START: &str = "UPDATE punctual_message SET state = 1, attempt = attempt + 1, owner = ?2, \
     token = ?3, lease_until = ?4 WHERE id = ?1";

/// How many of a queue run, whoever runs them.
const RUNNING: &str = "SELECT count(*) FROM punctual_message INDEXED BY punctual_message_running \
     WHERE state = 1 AND queue = ?1";

/// Hands out what is due.
pub(crate) fn claim(
    transaction: &Connection,
    (claim, marks): (&Claim, &Marks),
    now: Timestamp,
    effects: &mut Effects,
) -> Tried<Vec<Claimed>> {
    let limit = limit(transaction, claim)?;
    if claim.topics.is_none() {
        return Ok(Vec::new());
    }
    let walk = marks.begin(&claim.queue, &claim.topics, micros(now));
    let mut claiming = Claiming::new(claim, limit, walk);
    let first = claim.first.map(Priority::level);
    if let Some(priority) = first {
        claiming.find(transaction, priority, micros(now))?;
    }
    let mut below = ABOVE_ALL;
    while claiming.found.len() < limit {
        let Some(priority) = next_priority(transaction, claim, below)? else { break };
        if first != Some(priority) {
            claiming.find(transaction, priority, micros(now))?;
        }
        below = priority;
    }
    let (found, line) = (claiming.found.len(), (&claim.queue, &claim.topics));
    marks.end(line, &claiming.walk, found, micros(now));
    let claimed = claiming.start(transaction)?;
    if !claimed.is_empty() {
        effects.was_taken(&claim.queue);
        let (pending, running) = (Some(State::Pending), Some(State::Running));
        effects.moved(&claim.queue, claimed.len(), pending, running);
    }
    Ok(claimed)
}

/// How many may be handed out at most.
fn limit(transaction: &Connection, claim: &Claim) -> Tried<usize> {
    let Some(running_max) = claim.running_max else { return Ok(claim.limit) };
    let mut statement = transaction.prepare_cached(RUNNING)?;
    let running: i64 = statement.query_row([claim.queue.as_str()], |row| row.get(0))?;
    let running = usize::try_from(running).unwrap_or(usize::MAX);
    Ok(claim.limit.min(running_max.saturating_sub(running)))
}

/// Takes so many numbers; answers the last that was given out before.
pub(crate) fn next_tokens(transaction: &Connection, count: usize) -> Tried<u64> {
    let sql = "UPDATE punctual_counter SET value = value + ?1 WHERE name = 'token' \
               RETURNING value - ?1";
    let mut statement = transaction.prepare_cached(sql)?;
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let last: i64 = statement.query_row([count], |row| row.get(0))?;
    Ok(u64::try_from(last).unwrap_or(0))
}

fn next_priority(transaction: &Connection, claim: &Claim, below: u8) -> Tried<Option<u8>> {
    let mut statement = transaction.prepare_cached(NEXT_PRIORITY)?;
    let found = statement.query_row(params![claim.queue.as_str(), below], |row| row.get(0));
    Ok(found.optional()?)
}

struct Claiming<'a> {
    claim: &'a Claim,
    limit: usize,
    until: i64,
    /// The topics as a statement is given them.
    topics: Option<String>,
    walk: Walk,
    /// The jobs of what was found: from now on they run.
    jobs: HashSet<JobName>,
    lanes: Lanes,
    names: Names,
    found: Vec<Claimed>,
}

/// The first messages of a lane, by their place: due time and id.
struct Candidate {
    place: (i64, [u8; 16]),
    lane: Lane,
}

impl<'a> Claiming<'a> {
    fn new(claim: &'a Claim, limit: usize, walk: Walk) -> Self {
        let (jobs, lanes, names) = (HashSet::new(), Lanes::default(), Names::default());
        let (until, topics) = (micros(claim.until), list(&claim.topics));
        Self { claim, limit, until, topics, walk, jobs, lanes, names, found: Vec::new() }
    }

    /// Collects what is due at a priority, in order.
    fn find(&mut self, transaction: &Connection, priority: u8, now: i64) -> Tried<()> {
        let mut laned = self.candidates(transaction, priority, now)?.into_iter().peekable();
        let from = self.walk.from(priority);
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
        // The end of what is due, unless enough is found before it.
        let mut reached = Some((now, [u8::MAX; 16]));
        while self.found.len() < self.limit {
            let row = rows.next()?;
            let before = match row {
                Some(row) if laned.peek().is_some() => Some((row.get(10)?, row.get(0)?)),
                _ => None,
            };
            let goes_first = |one: &Candidate| before.is_none_or(|before| one.place < before);
            while let Some(candidate) = laned.next_if(goes_first) {
                self.take_laned(transaction, priority, &candidate)?;
            }
            let Some(row) = row else { break };
            if self.found.len() < self.limit {
                self.take(row, priority)?;
            }
            if self.found.len() == self.limit {
                reached = self.last_place();
            }
        }
        drop(rows);
        let steps = statement.get_status(StatementStatus::VmStep);
        self.walk.came_to(priority, reached.max(from), steps);
        Ok(())
    }

    /// The place of the last message that was found; nothing when it shares a limit, because those are not
    /// looked for by their place.
    fn last_place(&self) -> Option<Place> {
        let last = self.found.last().filter(|last| last.message.limit().is_none())?;
        Some((micros(last.due_at), *last.message.id.as_uuid().as_bytes()))
    }

    /// The first due messages of the lanes of a priority that are not full, in order; no more than can be
    /// handed out.
    fn candidates(
        &mut self,
        transaction: &Connection,
        priority: u8,
        now: i64,
    ) -> Tried<Vec<Candidate>> {
        let (queue, wanted) = (self.claim.queue.as_str(), self.limit - self.found.len());
        let (mut candidates, mut last) = (Vec::new(), Lane::default());
        while let Some(lane) = next_lane(transaction, (queue, priority), &last)? {
            last = lane;
            let room = self.lanes.room(transaction, &last)?;
            let room = room.min(i64::try_from(wanted).unwrap_or(i64::MAX));
            if room == 0 {
                continue;
            }
            let fits = condition(&self.claim.topics, 7);
            let sql = pending_of_lane(&format!("{NOT_WAITING} AND {fits}"));
            let mut statement = transaction.prepare_cached(&sql)?;
            let asked =
                params![queue, priority, last.name, last.running_max, now, room, self.topics];
            let asked = if self.topics.is_some() { asked } else { &asked[..6] };
            let mut rows = statement.query(asked)?;
            while let Some(row) = rows.next()? {
                let place = (row.get(0)?, row.get(1)?);
                candidates.push(Candidate { place, lane: last.clone() });
            }
            if candidates.len() / 2 > wanted {
                candidates.sort_unstable_by_key(|one| one.place);
                candidates.truncate(wanted);
            }
        }
        candidates.sort_unstable_by_key(|one| one.place);
        Ok(candidates)
    }

    /// Takes one of a lane, if that has still room: it may be there twice, with different numbers.
    fn take_laned(
        &mut self,
        transaction: &Connection,
        priority: u8,
        candidate: &Candidate,
    ) -> Tried<()> {
        if self.found.len() == self.limit || self.lanes.room(transaction, &candidate.lane)? == 0 {
            return Ok(());
        }
        let sql = format!("SELECT {CLAIM_COLUMNS} FROM punctual_message WHERE id = ?1");
        let mut statement = transaction.prepare_cached(&sql)?;
        let mut rows = statement.query([candidate.place.1])?;
        if let Some(row) = rows.next()?
            && self.take(row, priority)?
        {
            self.lanes.start(&candidate.lane);
        }
        Ok(())
    }

    /// Takes a message, unless it cannot be read or another one of its job was taken just now.
    fn take(&mut self, row: &Row<'_>, priority: u8) -> Tried<bool> {
        let line = (self.claim.queue.as_str(), i16::from(priority));
        let lease = Lease { owner: self.claim.owner, token: 0, until: instant(self.until)? };
        let claimed = claimed_of(row, line, &mut self.names, lease);
        let Some(claimed) = passed_over(claimed)? else { return Ok(false) };
        if let Some(occurrence) = &claimed.message.occurrence {
            let is_first = self.jobs.insert(occurrence.job.clone());
            if claimed.message.exclusive && !is_first {
                return Ok(false);
            }
        }
        self.found.push(claimed);
        Ok(true)
    }

    /// Puts what was found under its leases.
    fn start(mut self, transaction: &Connection) -> Tried<Vec<Claimed>> {
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
            free(transaction, &claimed.message)?;
        }
        Ok(self.found)
    }
}

/// What is due of one priority, is wanted and has no lane, oldest first; also only what comes after a place.
pub(crate) fn due_of_priority(topics: &TopicFilter, is_marked: bool) -> String {
    let fits = condition(topics, 4);
    let from = if is_marked { " AND (m.due_at, m.id) > (?5, ?6)" } else { "" };
    format!(
        "SELECT {CLAIM_COLUMNS} FROM punctual_message m INDEXED BY punctual_message_pending \
         WHERE m.state = 0 AND m.queue = ?1 AND m.priority = ?2 AND m.lane IS NULL AND m.lane_max IS NULL \
         AND m.due_at <= ?3{from} AND {fits} AND {NOT_WAITING} ORDER BY m.due_at, m.id"
    )
}
