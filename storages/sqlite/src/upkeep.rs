//! Upkeep: who is alive, whose work may be taken over, and what is old enough to go.

use punctual::jiff::Timestamp;
use punctual::model::{Lease, ProcessId, Queue, State};
use punctual::storage::{Claimed, Prune, Pruned, Reclaim};
use punctual_rows::code::Code as _;
use punctual_rows::instant::{instant, micros, micros_up};
use rusqlite::{Connection, OptionalExtension as _, ToSql, params};

use crate::effects::Effects;
use crate::fault::{Tried, passed_over};
use crate::rates;
use crate::row::{MESSAGE_COLUMNS, first_id, reclaimed_of};
use crate::work::{forget_held, next_tokens};

const BEAT: &str = "INSERT INTO punctual_process (id, until) VALUES (?1, ?2) \
     ON CONFLICT (id) DO UPDATE SET until = CASE WHEN ?2 > ?3 THEN max(until, ?2) ELSE ?2 END";

/// What may be taken over of an owner.
pub(crate) const LAPSED: &str = "SELECT lease_until, id FROM punctual_message INDEXED BY punctual_message_running \
     WHERE state = 1 AND owner = ?1 AND (?2 OR lease_until < ?3) \
     ORDER BY lease_until, id LIMIT ?4";

/// The owner after one, and whether its last beat has run out.
pub(crate) const NEXT_OWNER: &str = "SELECT owner, \
     EXISTS (SELECT 1 FROM punctual_process p WHERE p.id = m.owner AND p.until < ?2) \
     FROM punctual_message m INDEXED BY punctual_message_running \
     WHERE m.state = 1 AND m.owner > ?1 ORDER BY m.owner LIMIT 1";

/// The rows of the history that ended before an instant: those that lie by their time, and the strays.
pub(crate) const OLD: &str = "SELECT coalesce(finished_at, ended_at) AS last, id, queue, state, \
     ending IS NOT NULL FROM punctual_history \
     WHERE id < ?2 AND strayed_at IS NULL AND last < ?1 ORDER BY id LIMIT ?3";
pub(crate) const OLD_STRAYED: &str = "SELECT strayed_at, id, queue, state, ending IS NOT NULL \
     FROM punctual_history WHERE strayed_at < ?1 ORDER BY strayed_at, id LIMIT ?3";

/// How many owners one reclaim looks at; those beyond are looked at by the next.
const OWNERS_MAX: usize = 10_000;

/// Says that a process is alive until an instant, or says goodbye for it.
pub(crate) fn beat(
    transaction: &Connection,
    process: ProcessId,
    until: Timestamp,
    now: Timestamp,
) -> Tried<()> {
    let process = process.as_uuid();
    let row = params![process.as_bytes(), micros(until), micros(now)];
    transaction.prepare_cached(BEAT)?.execute(row)?;
    Ok(())
}

/// Takes over what expired, and all of an owner whose last beat has run out.
pub(crate) fn reclaim(
    transaction: &Connection,
    reclaim: &Reclaim,
    now: Timestamp,
) -> Tried<Vec<Claimed>> {
    // Strictly after the end, so a fraction of a microsecond counts.
    let mut lapsed = lapsed(transaction, reclaim.limit, micros_up(now))?;
    lapsed.sort_unstable();
    lapsed.truncate(reclaim.limit);
    if lapsed.is_empty() {
        return Ok(Vec::new());
    }
    let mut token = next_tokens(transaction, lapsed.len())?;
    let until = micros(reclaim.until);
    let owner = reclaim.owner.as_uuid();
    let mut claimed = Vec::with_capacity(lapsed.len());
    for (_, id) in lapsed {
        token += 1;
        let lease = Lease { owner: reclaim.owner, token, until: instant(until)? };
        let sql =
            "UPDATE punctual_message SET owner = ?2, token = ?3, lease_until = ?4 WHERE id = ?1";
        let number = i64::try_from(token).unwrap_or(i64::MAX);
        transaction.prepare_cached(sql)?.execute(params![id, owner.as_bytes(), number, until])?;
        let sql = format!("SELECT {MESSAGE_COLUMNS} FROM punctual_message WHERE id = ?1");
        let mut statement = transaction.prepare_cached(&sql)?;
        let mut rows = statement.query([id])?;
        if let Some(row) = rows.next()? {
            claimed.extend(passed_over(reclaimed_of(row, lease))?);
        }
    }
    Ok(claimed)
}

/// By their end and id, at most `limit` of each owner. An owner that never beat is judged by its
/// leases alone.
fn lapsed(transaction: &Connection, limit: usize, now: i64) -> Tried<Vec<(i64, [u8; 16])>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut found = Vec::new();
    let mut last: Vec<u8> = Vec::new();
    for _ in 0..OWNERS_MAX {
        let Some((owner, is_silent)) = next_owner(transaction, &last, now)? else { break };
        let mut statement = transaction.prepare_cached(LAPSED)?;
        let mut rows = statement.query(params![owner, is_silent, now, limit])?;
        while let Some(row) = rows.next()? {
            found.push((row.get(0)?, row.get(1)?));
        }
        last = owner;
    }
    Ok(found)
}

fn next_owner(transaction: &Connection, last: &[u8], now: i64) -> Tried<Option<(Vec<u8>, bool)>> {
    let mut statement = transaction.prepare_cached(NEXT_OWNER)?;
    let found = statement.query_row(params![last, now], |row| Ok((row.get(0)?, row.get(1)?)));
    Ok(found.optional()?)
}

/// Deletes what ended strictly before an instant, oldest first.
pub(crate) fn prune(
    transaction: &Connection,
    prune: Prune,
    now: Timestamp,
    effects: &mut Effects,
) -> Tried<Pruned> {
    let before = micros(prune.before);
    let mut pruned = prune_history(transaction, before, prune.limit, effects)?;
    if prune.dead {
        let left = prune.limit.saturating_sub(usize::try_from(pruned.messages).unwrap_or(0));
        pruned.messages += prune_dead(transaction, before, left, effects)?;
    }
    // Processes that went silent and hold nothing: nobody will ask about them again.
    let sql = "DELETE FROM punctual_process WHERE until < ?1 AND NOT EXISTS (SELECT 1 \
               FROM punctual_message m WHERE m.state = 1 AND m.owner = punctual_process.id)";
    transaction.prepare_cached(sql)?.execute([before])?;
    transaction.prepare_cached("DELETE FROM punctual_count WHERE count = 0")?.execute([])?;
    // What kept somebody out or back until now and does no longer.
    forget_held(transaction, micros(now), rows(prune.limit))?;
    rates::forget(transaction, rows(prune.limit), now)?;
    Ok(pruned)
}

/// A row of the history that is old enough.
struct Old {
    last: i64,
    id: [u8; 16],
    queue: Queue,
    finished: Option<State>,
    is_attempt: bool,
}

/// Until there are as many of one kind as there may be.
fn prune_history(
    transaction: &Connection,
    before: i64,
    limit: usize,
    effects: &mut Effects,
) -> Tried<Pruned> {
    let mut found = old(transaction, OLD_STRAYED, (before, before), limit)?;
    let end = first_id(before.saturating_add(1_000));
    found.extend(old(transaction, OLD, (before, end.as_bytes()), limit)?);
    found.sort_unstable_by_key(|old| (old.last, old.id));
    let limit = limit as u64;
    let mut pruned = Pruned::default();
    let mut remove = transaction.prepare_cached("DELETE FROM punctual_history WHERE id = ?1")?;
    for old in found {
        if pruned.messages.max(pruned.executions) == limit {
            break;
        }
        remove.execute([old.id])?;
        if old.is_attempt {
            pruned.executions += 1;
        }
        if let Some(state) = old.finished {
            pruned.messages += 1;
            effects.moved(&old.queue, 1, Some(state), None);
        }
    }
    Ok(pruned)
}

fn old(
    transaction: &Connection,
    sql: &str,
    (before, end): (i64, impl ToSql),
    limit: usize,
) -> Tried<Vec<Old>> {
    let mut statement = transaction.prepare_cached(sql)?;
    let mut rows = statement.query(params![before, end, rows(limit)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let state: Option<i16> = row.get(3)?;
        found.push(Old {
            last: row.get(0)?,
            id: row.get(1)?,
            queue: Queue::from(row.get::<_, String>(2)?),
            finished: state.map(State::from_code).transpose()?,
            is_attempt: row.get(4)?,
        });
    }
    Ok(found)
}

fn prune_dead(
    transaction: &Connection,
    before: i64,
    limit: usize,
    effects: &mut Effects,
) -> Tried<u64> {
    let sql = "DELETE FROM punctual_dead WHERE id IN \
               (SELECT id FROM punctual_dead WHERE ended_at < ?1 ORDER BY ended_at, id LIMIT ?2) \
               RETURNING queue";
    let mut statement = transaction.prepare_cached(sql)?;
    let mut deleted = statement.query(params![before, rows(limit)])?;
    let mut count = 0;
    while let Some(row) = deleted.next()? {
        effects.moved(&Queue::from(row.get::<_, String>(0)?), 1, Some(State::Dead), None);
        count += 1;
    }
    Ok(count)
}

fn rows(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
