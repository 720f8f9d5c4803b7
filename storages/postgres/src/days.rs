//! History by the day: finished messages and executions lie in one table for each day, which is
//! dropped as a whole when it is old enough, at no cost for the days beside it.
//!
//! Days are made ahead by whoever connects or prunes. Where that fails, because the role may not or
//! somebody holds a lock, rows go to the table for the rest; nothing that writes ever depends on it.

use punctual::clock::subtract;
use punctual::jiff::Timestamp;
use punctual::jiff::civil::Date;
use punctual::jiff::tz::TimeZone;
use tokio_postgres::types::Type;

use crate::failure::Failure;
use crate::inner::Inner;
use crate::session::Session;
use crate::value::{Micros, Param};

/// The tables that are divided.
const TABLES: [&str; 2] = ["finished", "execution"];
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
        let mut missing = Vec::new();
        for table in TABLES {
            let there = self.days(held, table).await?;
            for ahead in 0..DAYS_AHEAD {
                let day = today.checked_add(punctual::jiff::Span::new().days(ahead));
                missing.extend(day.ok().filter(|day| !there.contains(day)).map(|day| (table, day)));
            }
        }
        // All at once as a rule; one by one when one of them is in the way.
        if missing.is_empty() || self.try_days(held, &missing).await? {
            return Ok(());
        }
        for one in missing {
            if !self.try_days(held, &[one]).await? {
                tracing::debug!(day = %one.1, table = one.0, "no table; rows go to the rest");
            }
        }
        Ok(())
    }

    /// Makes days in one transaction; answers whether it could.
    async fn try_days(
        &self,
        held: &mut Session<'_>,
        days: &[(&str, Date)],
    ) -> Result<bool, Failure> {
        held.begin().await?;
        let text: Vec<String> = days.iter().map(|(table, day)| self.day_sql(table, *day)).collect();
        let made = held.client().batch_execute(&format!("{PATIENCE}; {}", text.join("; "))).await;
        match made.map_err(Failure::from) {
            Ok(()) => held.commit().await.map(|()| true),
            Err(failure) if failure.is_connection() => Err(failure),
            Err(_) => held.roll_back().await.map(|()| false),
        }
    }

    fn day_sql(&self, table: &str, day: Date) -> String {
        let schema = &self.schema.quoted;
        let name = format!("{schema}.{}", name_of(table, day));
        let next = day.tomorrow().unwrap_or(day);
        // Attached rather than made in place: that needs no lock which writers would wait for.
        format!(
            "CREATE TABLE {name} (LIKE {schema}.{table} INCLUDING DEFAULTS); \
             ALTER TABLE {schema}.{table} ATTACH PARTITION {name} \
             FOR VALUES FROM ('{day} 00:00:00+00') TO ('{next} 00:00:00+00')"
        )
    }

    /// The days a table has, oldest first.
    async fn days(&self, held: &Session<'_>, table: &str) -> Result<Vec<Date>, Failure> {
        let text = "SELECT c.relname FROM pg_catalog.pg_inherits i \
                    JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid \
                    WHERE i.inhparent = $1::text::regclass ORDER BY c.relname";
        let parent = format!("{}.{table}", self.schema.quoted);
        let mut days = Vec::new();
        for row in held.ask(text, &[(&parent, Type::TEXT)]).await? {
            days.extend(day_of(table, row.try_get(0)?));
        }
        Ok(days)
    }

    /// Drops the days that ended before an instant; answers how many rows went with them.
    pub(crate) async fn drop_days(
        &self,
        held: &mut Session<'_>,
        table: &str,
        before: Timestamp,
    ) -> Result<u64, Failure> {
        let end = before.to_zoned(TimeZone::UTC).date();
        let mut gone = 0;
        let days = self.days(held, table).await?;
        for day in days.into_iter().filter(|day| *day < end).take(DAYS_DROPPED_MAX) {
            match self.drop_day(held, table, day).await {
                Ok(rows) => gone += rows,
                Err(failure) if failure.is_connection() => return Err(failure),
                Err(_) => {
                    tracing::debug!(%day, table, "a day could not be dropped now; it is tried again");
                    held.roll_back().await?;
                    break;
                }
            }
        }
        Ok(gone)
    }

    async fn drop_day(
        &self,
        held: &mut Session<'_>,
        table: &str,
        day: Date,
    ) -> Result<u64, Failure> {
        let name = format!("{}.{}", self.schema.quoted, name_of(table, day));
        held.begin().await?;
        held.client().batch_execute(PATIENCE).await?;
        let rows = held.ask(&format!("SELECT count(*) FROM {name}"), &[]).await?;
        let count: i64 = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
        held.client().batch_execute(&format!("DROP TABLE {name}")).await?;
        held.commit().await?;
        Ok(u64::try_from(count).unwrap_or_default())
    }

    /// Deletes at most `limit` rows of the day an instant lies in that ended before it, in whatever
    /// order they lie: for those who keep history for hours only.
    pub(crate) async fn trim_day(
        &self,
        held: &Session<'_>,
        table: &str,
        before: Timestamp,
        limit: u64,
    ) -> Result<u64, Failure> {
        let day = before.to_zoned(TimeZone::UTC).date();
        if limit == 0 || !self.days(held, table).await?.contains(&day) {
            return Ok(0);
        }
        let name = format!("{}.{}", self.schema.quoted, name_of(table, day));
        let text = format!(
            "DELETE FROM {name} WHERE ctid = ANY(ARRAY(SELECT ctid FROM {name} \
             WHERE ended_at < $1 LIMIT $2))"
        );
        let before = Micros(punctual_rows::instant::micros(before));
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let params: [Param<'_>; 2] = [(&before, Type::TIMESTAMPTZ), (&limit, Type::INT8)];
        held.tell(&text, &params).await
    }
}

/// Whether history is kept for so short a time that a day is too coarse.
pub(crate) fn is_short(before: Timestamp, now: Timestamp) -> bool {
    before > subtract(now, SHORT)
}

fn name_of(table: &str, day: Date) -> String {
    format!("{table}_{:04}{:02}{:02}", day.year(), day.month(), day.day())
}

fn day_of(table: &str, name: &str) -> Option<Date> {
    let digits = name.strip_prefix(table)?.strip_prefix('_')?;
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
        assert_eq!(name_of("finished", day), "finished_20261105");
        assert_eq!(day_of("finished", "finished_20261105"), Some(day));
        for other in
            ["finished_rest", "execution_20261105", "finished_20261399", "finished_2026110"]
        {
            assert_eq!(day_of("finished", other), None);
        }
    }
}
