//! Rates: the latest starts of each name. How many may start is decided by the policy alone.

use punctual::jiff::Timestamp;
use punctual::policy::{Permitted, Starts, permit as permitted};
use punctual::storage::Permit;
use punctual_rows::instant::{instant, micros, micros_up};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::fault::Tried;

const USED: &str = "SELECT used_until, starts FROM punctual_rate WHERE name = ?1";
const USE: &str = "INSERT INTO punctual_rate (name, used_until, starts) VALUES (?1, ?2, ?3) \
     ON CONFLICT (name) DO UPDATE SET used_until = excluded.used_until, starts = excluded.starts";

/// Lets as many start as a rate allows now.
pub(crate) fn permit(
    transaction: &Connection,
    permit: &Permit,
    now: Timestamp,
) -> Tried<Permitted> {
    let name = permit.name.as_str();
    let known: Option<(i64, Option<String>)> = transaction
        .prepare_cached(USED)?
        .query_row([name], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let starts = match known {
        None => Starts::default(),
        Some((_, Some(text))) => Starts::from_text(&text),
        Some((used_until, None)) => Starts::from_used_until(permit.rate, instant(used_until)?, now),
    };
    let (answer, starts) = permitted(permit.rate, &starts, permit.wanted, now);
    if answer.granted > 0 {
        let used_until = micros_up(starts.used_until(permit.rate).unwrap_or(now));
        transaction.prepare_cached(USE)?.execute(params![name, used_until, starts.to_text()])?;
    }
    Ok(answer)
}

/// Forgets names whose rate is as good as unused.
pub(crate) fn forget(transaction: &Connection, limit: i64, now: Timestamp) -> Tried<()> {
    let sql = "DELETE FROM punctual_rate WHERE name IN \
               (SELECT name FROM punctual_rate WHERE used_until <= ?1 LIMIT ?2)";
    transaction.prepare_cached(sql)?.execute(params![micros(now), limit])?;
    Ok(())
}
