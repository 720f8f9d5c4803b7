//! Maintenance: heartbeats, reclaiming, and pruning.

use punctual::backend::storage::{ClaimedMessage, Prune, PruneResult, Reclaim};
use punctual::jiff::Timestamp;
use punctual::model::{Lease, MessageState, ProcessId, Queue};
use punctual_columns::code::Code as _;
use punctual_columns::instant::{instant, micros, micros_up};
use rusqlite::{Connection, OptionalExtension as _, ToSql, params};

use crate::driver::at_once;
use crate::effects::Effects;
use crate::error::{StorageResult, skip_corrupt};
use crate::operations::rates;
use crate::operations::{delete_expired_keys, next_tokens};
use crate::row::{MESSAGE_COLUMNS, first_id, reclaimed_of};

const HEARTBEAT: &str = "INSERT INTO punctual_process (id, until) VALUES (?1, ?2) \
     ON CONFLICT (id) DO UPDATE SET until = CASE WHEN ?2 > ?3 THEN max(until, ?2) ELSE ?2 END";

/// Messages of an owner that may be reclaimed.
pub(crate) const LAPSED: &str = "SELECT lease_until, id FROM punctual_message INDEXED BY punctual_message_running \
     WHERE state = 1 AND owner = ?1 AND (?2 OR lease_until < ?3) \
     ORDER BY lease_until, id LIMIT ?4";

/// Next owner in order, and whether its last heartbeat has expired.
pub(crate) const NEXT_OWNER: &str = "SELECT owner, \
     EXISTS (SELECT 1 FROM punctual_process p WHERE p.id = m.owner AND p.until < ?2) \
     FROM punctual_message m INDEXED BY punctual_message_running \
     WHERE m.state = 1 AND m.owner > ?1 ORDER BY m.owner LIMIT 1";

/// Earliest end of a lease or of its owner's heartbeat.
pub(crate) const NEXT_EXPIRY: &str = "SELECT min(min(m.lease_until, coalesce(p.until, m.lease_until))) \
     FROM punctual_message m INDEXED BY punctual_message_running \
     LEFT JOIN punctual_process p ON p.id = m.owner WHERE m.state = 1";

/// Number of messages that may be reclaimed.
pub(crate) const LAPSED_COUNT: &str = "SELECT count(*) \
     FROM punctual_message m INDEXED BY punctual_message_running \
     LEFT JOIN punctual_process p ON p.id = m.owner \
     WHERE m.state = 1 AND (m.lease_until < ?1 OR p.until < ?1)";

/// Rows of the history that ended before an instant: those in the order of their ids, and the strayed ones.
pub(crate) const OLD: &str = "SELECT coalesce(finished_at, ended_at) AS last, id, queue, state, \
     ending IS NOT NULL FROM punctual_history \
     WHERE id < ?2 AND strayed_at IS NULL AND last < ?1 ORDER BY id LIMIT ?3";
pub(crate) const OLD_STRAYED: &str = "SELECT strayed_at, id, queue, state, ending IS NOT NULL \
     FROM punctual_history WHERE strayed_at < ?1 ORDER BY strayed_at, id LIMIT ?3";

/// Most owners of one reclaim; the next one continues behind them.
const OWNERS_MAX: usize = 10_000;

/// Records a heartbeat valid until `until`; a value not after `now` deregisters the process.
pub(crate) fn heartbeat(
    transaction: &Connection,
    process: ProcessId,
    until: Timestamp,
    now: Timestamp,
) -> StorageResult<()> {
    let process = process.as_uuid();
    let row = params![process.as_bytes(), micros(until), micros(now)];
    transaction.prepare_cached(HEARTBEAT)?.execute(row)?;
    Ok(())
}

/// Returns the earliest end of a lease or of its owner's heartbeat.
pub(crate) fn next_expiry(connection: &Connection) -> StorageResult<Option<Timestamp>> {
    let mut statement = connection.prepare_cached(NEXT_EXPIRY)?;
    let end: Option<i64> = statement.query_row([], |row| row.get(0))?;
    Ok(end.map(instant).transpose()?)
}

/// Reclaims messages whose lease has ended, and all of an owner whose last heartbeat has expired.
pub(crate) fn reclaim(
    transaction: &Connection,
    reclaim: &Reclaim,
    now: Timestamp,
) -> StorageResult<Vec<ClaimedMessage>> {
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
            claimed.extend(skip_corrupt(reclaimed_of(row, lease))?);
        }
    }
    Ok(claimed)
}

/// Returns reclaimable messages by end and id, at most `limit` of each owner. An owner that never sent a
/// heartbeat is judged by its leases alone.
fn lapsed(transaction: &Connection, limit: usize, now: i64) -> StorageResult<Vec<(i64, [u8; 16])>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut found = Vec::new();
    let mut last: Vec<u8> = Vec::new();
    for _ in 0..OWNERS_MAX {
        let Some((owner, has_expired)) = next_owner(transaction, &last, now)? else { break };
        let mut statement = transaction.prepare_cached(LAPSED)?;
        let mut rows = statement.query(params![owner, has_expired, now, limit])?;
        while let Some(row) = rows.next()? {
            found.push((row.get(0)?, row.get(1)?));
        }
        last = owner;
    }
    Ok(found)
}

fn next_owner(
    transaction: &Connection,
    last: &[u8],
    now: i64,
) -> StorageResult<Option<(Vec<u8>, bool)>> {
    let mut statement = transaction.prepare_cached(NEXT_OWNER)?;
    let found = statement.query_row(params![last, now], |row| Ok((row.get(0)?, row.get(1)?)));
    Ok(found.optional()?)
}

/// Deletes messages and attempts that ended strictly before an instant, oldest first.
pub(crate) fn prune(
    transaction: &Connection,
    prune: Prune,
    now: Timestamp,
    effects: &mut Effects,
) -> StorageResult<PruneResult> {
    let before = micros(prune.before);
    let mut pruned = prune_history(transaction, before, prune.limit, effects)?;
    if prune.dead {
        let left = prune.limit.saturating_sub(usize::try_from(pruned.messages).unwrap_or(0));
        pruned.messages += prune_dead(transaction, before, left, effects)?;
    }
    // Processes without heartbeat and without messages are not referenced any more.
    let sql = "DELETE FROM punctual_process WHERE until < ?1 AND NOT EXISTS (SELECT 1 \
               FROM punctual_message m WHERE m.state = 1 AND m.owner = punctual_process.id)";
    transaction.prepare_cached(sql)?.execute([before])?;
    transaction.prepare_cached("DELETE FROM punctual_count WHERE count = 0")?.execute([])?;
    // Reservations of keys and rates that have expired.
    at_once(delete_expired_keys(&transaction, micros(now), rows(prune.limit)))?;
    rates::forget(transaction, rows(prune.limit), now)?;
    Ok(pruned)
}

/// Row of the history that is old enough.
struct OldRow {
    last: i64,
    id: [u8; 16],
    queue: Queue,
    finished: Option<MessageState>,
    is_attempt: bool,
}

/// Prunes the history until as many rows of one kind are deleted as allowed.
fn prune_history(
    transaction: &Connection,
    before: i64,
    limit: usize,
    effects: &mut Effects,
) -> StorageResult<PruneResult> {
    let mut found = old(transaction, OLD_STRAYED, (before, before), limit)?;
    let end = first_id(before.saturating_add(1_000));
    found.extend(old(transaction, OLD, (before, end.as_bytes()), limit)?);
    found.sort_unstable_by_key(|old| (old.last, old.id));
    let limit = limit as u64;
    let mut pruned = PruneResult::default();
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
) -> StorageResult<Vec<OldRow>> {
    let mut statement = transaction.prepare_cached(sql)?;
    let mut rows = statement.query(params![before, end, rows(limit)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let state: Option<i16> = row.get(3)?;
        found.push(OldRow {
            last: row.get(0)?,
            id: row.get(1)?,
            queue: Queue::from(row.get::<_, String>(2)?),
            finished: state.map(MessageState::from_code).transpose()?,
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
) -> StorageResult<u64> {
    let sql = "DELETE FROM punctual_dead WHERE id IN \
               (SELECT id FROM punctual_dead WHERE ended_at < ?1 ORDER BY ended_at, id LIMIT ?2) \
               RETURNING queue";
    let mut statement = transaction.prepare_cached(sql)?;
    let mut deleted = statement.query(params![before, rows(limit)])?;
    let mut count = 0;
    while let Some(row) = deleted.next()? {
        effects.moved(&Queue::from(row.get::<_, String>(0)?), 1, Some(MessageState::Dead), None);
        count += 1;
    }
    Ok(count)
}

fn rows(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
