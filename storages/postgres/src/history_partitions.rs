//! Partitions of the history: ended messages and attempts are in one table for each day, which is dropped as a
//! whole when it is old enough, at no cost for the other days.
//!
//! Partitions are created ahead by every process that connects or prunes. Where that fails, because the role
//! lacks the right or another transaction holds a lock, rows go to the default partition; no write depends on a
//! partition.

use punctual::backend::storage::PruneResult;
use punctual::clock::subtract;
use punctual::jiff::Timestamp;
use punctual::jiff::civil::Date;
use punctual::jiff::tz::TimeZone;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::error::StorageError;
use crate::inner::Inner;
use crate::session::Session;
use crate::value::Micros;

/// Partitioned table.
const TABLE: &str = "history";
/// Default partition, for rows of no other one.
pub(crate) const DEFAULT_PARTITION: &str = "history_rest";
/// Number of days for which partitions are created ahead, today included.
const DAYS_AHEAD: i8 = 3;
/// Most partitions that are dropped in one call.
const PARTITIONS_DROPPED_MAX: usize = 8;
/// Timeouts of a change of the tables: other transactions queue behind it while it waits for a lock.
const TIMEOUTS: &str = "SET LOCAL lock_timeout = '200ms'; SET LOCAL statement_timeout = '5s'; SET LOCAL enable_seqscan = on";
/// A history kept for no longer than this is pruned row by row, not by the day.
pub(crate) const SHORT_RETENTION: std::time::Duration = std::time::Duration::from_hours(48);

impl Inner {
    /// Creates the missing partitions of the next days.
    pub(crate) async fn create_partitions(
        &self,
        session: &mut Session<'_>,
    ) -> Result<(), StorageError> {
        let rows = session.query_text("SELECT clock_timestamp()", &[]).await?;
        let Some(row) = rows.first() else { return Ok(()) };
        let now = punctual_columns::instant::instant(row.try_get::<_, Micros>(0)?.0)?;
        let today = now.to_zoned(TimeZone::UTC).date();
        let existing = self.days(session).await?;
        let ahead = |days| today.checked_add(punctual::jiff::Span::new().days(days)).ok();
        let missing = (0..DAYS_AHEAD).filter_map(ahead).filter(|day| !existing.contains(day));
        let missing: Vec<Date> = missing.collect();
        // Usually all at once; one by one when one of them fails.
        if missing.is_empty() || self.try_create_partitions(session, &missing).await? {
            return Ok(());
        }
        for day in missing {
            if !self.try_create_partitions(session, &[day]).await? {
                tracing::debug!(%day, "no partition; rows go to the default partition");
            }
        }
        Ok(())
    }

    /// Creates partitions in one transaction; returns whether it succeeded.
    async fn try_create_partitions(
        &self,
        session: &mut Session<'_>,
        days: &[Date],
    ) -> Result<bool, StorageError> {
        session.begin().await?;
        let text: Vec<String> = days.iter().map(|day| self.partition_sql(*day)).collect();
        let made =
            session.client().batch_execute(&format!("{TIMEOUTS}; {}", text.join("; "))).await;
        match made.map_err(StorageError::from) {
            Ok(()) => session.commit().await.map(|()| true),
            Err(failure) if failure.is_connection_lost() => Err(failure),
            Err(_) => session.roll_back().await.map(|()| false),
        }
    }

    fn partition_sql(&self, day: Date) -> String {
        let schema = &self.schema.quoted;
        let name = format!("{schema}.{}", name_of(day));
        let next = day.tomorrow().unwrap_or(day);
        // Attached rather than created in place: that needs no lock that writers would wait for.
        format!(
            "CREATE TABLE {name} (LIKE {schema}.{TABLE} INCLUDING DEFAULTS); \
             ALTER TABLE {schema}.{TABLE} ATTACH PARTITION {name} \
             FOR VALUES FROM ('{day} 00:00:00+00') TO ('{next} 00:00:00+00')"
        )
    }

    /// Returns the days that have a partition, oldest first.
    async fn days(&self, session: &Session<'_>) -> Result<Vec<Date>, StorageError> {
        let text = "SELECT c.relname FROM pg_catalog.pg_inherits i \
                    JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid \
                    WHERE i.inhparent = $1::text::regclass ORDER BY c.relname";
        let parent = format!("{}.{TABLE}", self.schema.quoted);
        let mut days = Vec::new();
        for row in session.query_text(text, &[(&parent, Type::TEXT)]).await? {
            days.extend(day_of(row.try_get(0)?));
        }
        Ok(days)
    }

    /// Drops the partitions that ended before an instant; returns how many messages and executions they had.
    pub(crate) async fn drop_partitions(
        &self,
        session: &mut Session<'_>,
        before: Timestamp,
    ) -> Result<PruneResult, StorageError> {
        let end = before.to_zoned(TimeZone::UTC).date();
        let mut gone = PruneResult::default();
        let days = self.days(session).await?;
        for day in days.into_iter().filter(|day| *day < end).take(PARTITIONS_DROPPED_MAX) {
            match self.drop_partition(session, day).await {
                Ok(rows) => {
                    gone.messages += rows.messages;
                    gone.executions += rows.executions;
                }
                Err(failure) if failure.is_connection_lost() => return Err(failure),
                Err(_) => {
                    tracing::debug!(%day, "a partition could not be dropped and is tried again later");
                    session.roll_back().await?;
                    break;
                }
            }
        }
        Ok(gone)
    }

    async fn drop_partition(
        &self,
        session: &mut Session<'_>,
        day: Date,
    ) -> Result<PruneResult, StorageError> {
        let name = format!("{}.{}", self.schema.quoted, name_of(day));
        session.begin().await?;
        session.client().batch_execute(TIMEOUTS).await?;
        let count = format!("SELECT count(state), count(id) FROM {name}");
        let gone = counted(&session.query_text(&count, &[]).await?)?;
        session.client().batch_execute(&format!("DROP TABLE {name}")).await?;
        session.commit().await?;
        Ok(gone)
    }

    /// Returns the partition of an instant's day, if there is one: for a history that is kept for hours only.
    pub(crate) async fn partition_of(
        &self,
        session: &Session<'_>,
        instant: Timestamp,
    ) -> Result<Option<String>, StorageError> {
        let day = instant.to_zoned(TimeZone::UTC).date();
        Ok(self.days(session).await?.contains(&day).then(|| name_of(day)))
    }
}

/// Reads the numbers of messages and executions that a statement has counted.
pub(crate) fn counted(rows: &[Row]) -> Result<PruneResult, StorageError> {
    let count = |place| -> Result<u64, StorageError> {
        let count: i64 = rows.first().map_or(Ok(0), |row| row.try_get(place))?;
        Ok(u64::try_from(count).unwrap_or_default())
    };
    Ok(PruneResult { messages: count(0)?, executions: count(1)? })
}

/// Returns whether history is kept for so short a time that a day is too coarse.
pub(crate) fn is_short(before: Timestamp, now: Timestamp) -> bool {
    before > subtract(now, SHORT_RETENTION)
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
    fn the_name_of_a_partition_reads_back_and_the_default_partition_is_no_day() {
        let day = Date::new(2026, 11, 5).unwrap();
        assert_eq!(name_of(day), "history_20261105");
        assert_eq!(day_of("history_20261105"), Some(day));
        for other in [DEFAULT_PARTITION, "other_20261105", "history_20261399", "history_2026110"] {
            assert_eq!(day_of(other), None);
        }
    }
}
