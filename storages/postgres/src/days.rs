//! History by the day: what has ended lies in one table for each day, which is dropped as a whole when
//! it is old enough, at no cost for the days beside it.
//!
//! Days are made ahead by whoever connects or prunes. Where that fails, because the role may not or
//! somebody holds a lock, rows go to the table for the rest; nothing that writes ever depends on it.

use punctual::clock::subtract;
use punctual::jiff::Timestamp;
use punctual::jiff::civil::Date;
use punctual::jiff::tz::TimeZone;
use punctual::storage::Pruned;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::failure::Failure;
use crate::inner::Inner;
use crate::session::Session;
use crate::value::Micros;

/// The table that is divided.
const TABLE: &str = "history";
/// Whatever lies in no day.
pub(crate) const REST: &str = "history_rest";
/// How many days are made ahead, today included.
const DAYS_AHEAD: i8 = 3;
/// The most days that go in one call.
const DAYS_DROPPED_MAX: usize = 8;
/// How long a change of the tables waits for others, who would wait behind it.
const PATIENCE: &str = "SET LOCAL lock_timeout = '200ms'; SET LOCAL statement_timeout = '5s'; SET LOCAL enable_seqscan = on";
/// Who keeps history no longer than this is served to the row, not to the day.
pub(crate) const SHORT: std::time::Duration = std::time::Duration::from_hours(48);

impl Inner {
    /// Makes the tables of the next days that are not there yet.
    pub(crate) async fn make_days(&self, held: &mut Session<'_>) -> Result<(), Failure> {
        let rows = held.ask("SELECT clock_timestamp()", &[]).await?;
        let Some(row) = rows.first() else { return Ok(()) };
        let now = punctual_rows::instant::instant(row.try_get::<_, Micros>(0)?.0)?;
        let today = now.to_zoned(TimeZone::UTC).date();
        let there = self.days(held).await?;
        let ahead = |days| today.checked_add(punctual::jiff::Span::new().days(days)).ok();
        let missing = (0..DAYS_AHEAD).filter_map(ahead).filter(|day| !there.contains(day));
        let missing: Vec<Date> = missing.collect();
        // All at once as a rule; one by one when one of them is in the way.
        if missing.is_empty() || self.try_days(held, &missing).await? {
            return Ok(());
        }
        for day in missing {
            if !self.try_days(held, &[day]).await? {
                tracing::debug!(%day, "no table; rows go to the rest");
            }
        }
        Ok(())
    }

    /// Makes days in one transaction; answers whether it could.
    async fn try_days(&self, held: &mut Session<'_>, days: &[Date]) -> Result<bool, Failure> {
        held.begin().await?;
        let text: Vec<String> = days.iter().map(|day| self.day_sql(*day)).collect();
        let made = held.client().batch_execute(&format!("{PATIENCE}; {}", text.join("; "))).await;
        match made.map_err(Failure::from) {
            Ok(()) => held.commit().await.map(|()| true),
            Err(failure) if failure.is_connection() => Err(failure),
            Err(_) => held.roll_back().await.map(|()| false),
        }
    }

    fn day_sql(&self, day: Date) -> String {
        let schema = &self.schema.quoted;
        let name = format!("{schema}.{}", name_of(day));
        let next = day.tomorrow().unwrap_or(day);
        // Attached rather than made in place: that needs no lock which writers would wait for.
        format!(
            "CREATE TABLE {name} (LIKE {schema}.{TABLE} INCLUDING DEFAULTS); \
             ALTER TABLE {schema}.{TABLE} ATTACH PARTITION {name} \
             FOR VALUES FROM ('{day} 00:00:00+00') TO ('{next} 00:00:00+00')"
        )
    }

    /// The days there are, oldest first.
    async fn days(&self, held: &Session<'_>) -> Result<Vec<Date>, Failure> {
        let text = "SELECT c.relname FROM pg_catalog.pg_inherits i \
                    JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid \
                    WHERE i.inhparent = $1::text::regclass ORDER BY c.relname";
        let parent = format!("{}.{TABLE}", self.schema.quoted);
        let mut days = Vec::new();
        for row in held.ask(text, &[(&parent, Type::TEXT)]).await? {
            days.extend(day_of(row.try_get(0)?));
        }
        Ok(days)
    }

    /// Drops the days that ended before an instant; answers how much went with them.
    pub(crate) async fn drop_days(
        &self,
        held: &mut Session<'_>,
        before: Timestamp,
    ) -> Result<Pruned, Failure> {
        let end = before.to_zoned(TimeZone::UTC).date();
        let mut gone = Pruned::default();
        let days = self.days(held).await?;
        for day in days.into_iter().filter(|day| *day < end).take(DAYS_DROPPED_MAX) {
            match self.drop_day(held, day).await {
                Ok(rows) => {
                    gone.messages += rows.messages;
                    gone.executions += rows.executions;
                }
                Err(failure) if failure.is_connection() => return Err(failure),
                Err(_) => {
                    tracing::debug!(%day, "a day could not be dropped now; it is tried again");
                    held.roll_back().await?;
                    break;
                }
            }
        }
        Ok(gone)
    }

    async fn drop_day(&self, held: &mut Session<'_>, day: Date) -> Result<Pruned, Failure> {
        let name = format!("{}.{}", self.schema.quoted, name_of(day));
        held.begin().await?;
        held.client().batch_execute(PATIENCE).await?;
        let count = format!("SELECT count(state), count(id) FROM {name}");
        let gone = counted(&held.ask(&count, &[]).await?)?;
        held.client().batch_execute(&format!("DROP TABLE {name}")).await?;
        held.commit().await?;
        Ok(gone)
    }

    /// The table of the day an instant lies in, when there is one: for those who keep history for hours
    /// only.
    pub(crate) async fn day_of(
        &self,
        held: &Session<'_>,
        instant: Timestamp,
    ) -> Result<Option<String>, Failure> {
        let day = instant.to_zoned(TimeZone::UTC).date();
        Ok(self.days(held).await?.contains(&day).then(|| name_of(day)))
    }
}

/// How many messages and how many executions a statement has counted.
pub(crate) fn counted(rows: &[Row]) -> Result<Pruned, Failure> {
    let count = |place| -> Result<u64, Failure> {
        let count: i64 = rows.first().map_or(Ok(0), |row| row.try_get(place))?;
        Ok(u64::try_from(count).unwrap_or_default())
    };
    Ok(Pruned { messages: count(0)?, executions: count(1)? })
}

/// Whether history is kept for so short a time that a day is too coarse.
pub(crate) fn is_short(before: Timestamp, now: Timestamp) -> bool {
    before > subtract(now, SHORT)
}

fn name_of(day: Date) -> String {
    format!("{TABLE}_{:04}{:02}{:02}", day.year(), day.month(), day.day())
}

fn day_of(name: &str) -> Option<Date> {
    let digits = name.strip_prefix(TABLE)?.strip_prefix('_')?;
    if digits.len() != 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Date::new(digits[..4].parse().ok()?, digits[4..6].parse().ok()?, digits[6..].parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_day_reads_back_and_the_rest_is_no_day() {
        let day = Date::new(2026, 11, 5).unwrap();
        assert_eq!(name_of(day), "history_20261105");
        assert_eq!(day_of("history_20261105"), Some(day));
        for other in [REST, "other_20261105", "history_20261399", "history_2026110"] {
            assert_eq!(day_of(other), None);
        }
    }
}
