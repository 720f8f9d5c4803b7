//! Rates: the latest starts of each name. The policy alone decides how many may start.

use punctual::backend::policy::{RateGrant, RateStarts, grant_starts};
use punctual::backend::storage::RateRequest;
use punctual::jiff::Timestamp;
use punctual_columns::instant::{instant, micros, micros_up};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::error::StorageResult;

const USED: &str = "SELECT used_until, starts FROM punctual_rate WHERE name = ?1";
const USE: &str = "INSERT INTO punctual_rate (name, used_until, starts) VALUES (?1, ?2, ?3) \
     ON CONFLICT (name) DO UPDATE SET used_until = excluded.used_until, starts = excluded.starts";

/// Grants as many starts as a rate allows now.
pub(crate) fn acquire(
    transaction: &Connection,
    permit: &RateRequest,
    now: Timestamp,
) -> StorageResult<RateGrant> {
    let name = permit.name.as_str();
    let known: Option<(i64, Option<String>)> = transaction
        .prepare_cached(USED)?
        .query_row([name], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let starts = match known {
        None => RateStarts::default(),
        Some((_, Some(text))) => RateStarts::from_text(&text),
        Some((used_until, None)) => {
            RateStarts::from_used_until(permit.rate, instant(used_until)?, now)
        }
    };
    let (grant, starts) = grant_starts(permit.rate, &starts, permit.requested, now);
    if grant.granted > 0 {
        let used_until = micros_up(starts.used_until(permit.rate).unwrap_or(now));
        transaction.prepare_cached(USE)?.execute(params![name, used_until, starts.to_text()])?;
    }
    Ok(grant)
}

/// Deletes the names whose rate is unused again.
pub(crate) fn forget(transaction: &Connection, limit: i64, now: Timestamp) -> StorageResult<()> {
    let sql = "DELETE FROM punctual_rate WHERE name IN \
               (SELECT name FROM punctual_rate WHERE used_until <= ?1 LIMIT ?2)";
    transaction.prepare_cached(sql)?.execute(params![micros(now), limit])?;
    Ok(())
}
