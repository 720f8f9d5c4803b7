//! Claim. The index of pending messages is walked one priority at a time, each only up to `now`, so a
//! million messages of the future cost nothing. What has to wait for its turn is passed over.

use std::collections::HashSet;

use punctual::jiff::Timestamp;
use punctual::model::{JobName, Lease, State};
use punctual::storage::{Claim, Claimed};
use punctual_rows::instant::{instant, micros};
use punctual_rows::message::Names;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::effects::Effects;
use crate::fault::{Tried, passed_over};
use crate::row::{CLAIM_COLUMNS, claimed_of};

/// Priorities are 0 to 9.
const ABOVE_ALL: u8 = 10;

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

/// Hands out what is due.
pub(crate) fn claim(
    transaction: &Connection,
    claim: &Claim,
    now: Timestamp,
    effects: &mut Effects,
) -> Tried<Vec<Claimed>> {
    let until = micros(claim.until);
    let (jobs, names, found) = (HashSet::new(), Names::default(), Vec::new());
    let mut claimed = Claiming { claim, until, jobs, names, found };
    let mut below = ABOVE_ALL;
    while claimed.found.len() < claim.limit {
        let Some(priority) = next_priority(transaction, claim, below)? else { break };
        claimed.find(transaction, priority, micros(now))?;
        below = priority;
    }
    let claimed = claimed.start(transaction)?;
    if !claimed.is_empty() {
        effects.was_taken(&claim.queue);
        let (pending, running) = (Some(State::Pending), Some(State::Running));
        effects.moved(&claim.queue, claimed.len(), pending, running);
    }
    Ok(claimed)
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
    until: i64,
    /// The jobs of what was found: from now on they run.
    jobs: HashSet<JobName>,
    names: Names,
    found: Vec<Claimed>,
}

impl Claiming<'_> {
    /// Collects what is due at a priority, in order.
    fn find(&mut self, transaction: &Connection, priority: u8, now: i64) -> Tried<()> {
        let sql = due_of_priority();
        let mut statement = transaction.prepare_cached(&sql)?;
        let line = (self.claim.queue.as_str(), i16::from(priority));
        let lease = Lease { owner: self.claim.owner, token: 0, until: instant(self.until)? };
        let mut rows = statement.query(params![line.0, priority, now])?;
        while self.found.len() < self.claim.limit
            && let Some(row) = rows.next()?
        {
            let claimed = claimed_of(row, line, &mut self.names, lease);
            let Some(claimed) = passed_over(claimed)? else { continue };
            if let Some(occurrence) = &claimed.message.occurrence {
                let is_first = self.jobs.insert(occurrence.job.clone());
                if claimed.message.exclusive && !is_first {
                    continue;
                }
            }
            self.found.push(claimed);
        }
        Ok(())
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
        }
        Ok(self.found)
    }
}

/// What is due of one priority, oldest first.
pub(crate) fn due_of_priority() -> String {
    format!(
        "SELECT {CLAIM_COLUMNS} FROM punctual_message m INDEXED BY punctual_message_pending \
         WHERE m.state = 0 AND m.queue = ?1 AND m.priority = ?2 AND m.due_at <= ?3 \
         AND {NOT_WAITING} ORDER BY m.due_at, m.id"
    )
}
