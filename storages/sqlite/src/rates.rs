//! Rates: until when each name has used its own up. How many may start is decided by the policy alone.

use punctual::jiff::Timestamp;
use punctual::policy::{Permitted, permit as permitted};
use punctual::storage::Permit;
use punctual_rows::instant::{instant, micros, micros_up};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::fault::Tried;

const USED: &str = "SELECT used_until FROM punctual_rate WHERE name = ?1";
const USE: &str = "INSERT INTO punctual_rate (name, used_until) VALUES (?1, ?2) \
     ON CONFLICT (name) DO UPDATE SET used_until = excluded.used_until";

/// Lets as many start as a rate allows now.
pub(crate) fn permit(
    transaction: &Connection,
    permit: &Permit,
    now: Timestamp,
) -> Tried<Permitted> {
    let name = permit.name.as_str();
    let used: Option<i64> =
        transaction.prepare_cached(USED)?.query_row([name], |row| row.get(0)).optional()?;
    let used = used.map(instant).transpose()?;
    let (answer, used_until) = permitted(permit.rate, used, permit.wanted, now);
    if answer.granted > 0 {
        // Rounded up, so that never more may start than the rate says.
        transaction.prepare_cached(USE)?.execute(params![name, micros_up(used_until)])?;
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
