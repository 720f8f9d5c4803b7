//! Maintenance: heartbeats, pruning, next due times, and the time of the database.

use punctual::Result;
use punctual::jiff::Timestamp;
use punctual::model::{MessageState, ProcessId, Queue};
use punctual::storage::{NEXT_DUE_SCAN_MAX, Prune, PruneResult, WakeSource};
use punctual_columns::code::Code as _;
use punctual_columns::instant::{instant, micros, micros_up};
use tokio_postgres::types::Type;

use crate::error::StorageError;
use crate::history_partitions::{DEFAULT_PARTITION, counted, is_short};
use crate::inner::{Inner, attempt};
use crate::session::Session;
use crate::topics::due_filter;
use crate::value::{Micros, Param};

impl Inner {
    pub(crate) async fn heartbeat(
        &self,
        process: ProcessId,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<()> {
        attempt!(self, |session| async {
            let params: [Param<'_>; 3] = [
                (&process.as_uuid(), Type::UUID),
                (&Micros(micros_up(until)), Type::TIMESTAMPTZ),
                (&Micros(micros_up(now)), Type::TIMESTAMPTZ),
            ];
            session.execute(&self.sql.heartbeat, &params).await.map(|_| ())
        })
    }

    /// Returns the earliest end of a lease or of its owner's heartbeat.
    pub(crate) async fn next_expiry(&self) -> Result<Option<Timestamp>> {
        let end: Option<Micros> = attempt!(self, |session| async {
            let rows = session.query(&self.sql.next_expiry, &[]).await?;
            Ok(rows.first().map(|row| row.try_get(0)).transpose()?.flatten())
        })?;
        end.map(|end| instant(end.0)).transpose()
    }

    pub(crate) async fn prune(&self, prune: Prune, now: Timestamp) -> Result<PruneResult> {
        let before = Micros(micros(prune.before));
        attempt!(self, |session| async {
            self.create_partitions(session).await?;
            let limit = prune.limit as u64;
            let mut pruned = self.prune_history(session, prune, now).await?;
            if prune.dead && pruned.messages < limit {
                let left = limit - pruned.messages;
                let letters = removed(session, &self.sql.prune_dead.text, before, left).await?;
                pruned.messages += letters.messages;
            }
            session.execute(&self.sql.prune_processes, &[(&before, Type::TIMESTAMPTZ)]).await?;
            let now = Micros(micros(now));
            let most = i64::try_from(prune.limit).unwrap_or(i64::MAX);
            for sql in [&self.sql.prune_keys, &self.sql.prune_rates] {
                session.execute(sql, &[(&now, Type::TIMESTAMPTZ), (&most, Type::INT8)]).await?;
            }
            Ok(pruned)
        })
    }

    /// Drops whole days first, which costs nothing, then deletes at most `limit` rows of each kind.
    async fn prune_history(
        &self,
        session: &mut Session<'_>,
        prune: Prune,
        now: Timestamp,
    ) -> Result<PruneResult, StorageError> {
        let mut pruned = self.drop_partitions(session, prune.before).await?;
        let mut tables = vec![(DEFAULT_PARTITION.to_owned(), "ORDER BY ended_at")];
        if is_short(prune.before, now) {
            tables.extend(self.partition_of(session, prune.before).await?.map(|day| (day, "")));
        }
        let before = Micros(micros(prune.before));
        let mut left = prune.limit as u64;
        for (table, order) in tables {
            let text = &self.sql.prune_history.text;
            let text = text.replace("{table}", &table).replace("{order}", order);
            // A row of only one kind leaves room for one of the other kind, so the rest shrinks by half at
            // least.
            while left > 0 {
                let gone = removed(session, &text, before, left).await?;
                if gone == PruneResult::default() {
                    break;
                }
                left -= gone.messages.max(gone.executions).min(left);
                pruned.messages += gone.messages;
                pruned.executions += gone.executions;
            }
        }
        Ok(pruned)
    }

    pub(crate) async fn next_due(&self, source: &WakeSource) -> Result<Option<Timestamp>> {
        if *source == WakeSource::Leases {
            return Ok(None);
        }
        Ok(self.next_due_all(std::slice::from_ref(source)).await?.pop().flatten())
    }

    /// Returns the next due times of several sources, with one statement.
    pub(crate) async fn next_due_all(
        &self,
        sources: &[WakeSource],
    ) -> Result<Vec<Option<Timestamp>>> {
        if sources.is_empty() {
            return Ok(Vec::new());
        }
        let queries: Vec<_> =
            sources.iter().map(|source| self.notifications.begin_query(source)).collect();
        let queues: Vec<&str> =
            sources.iter().map(|source| source.queue().map_or("", Queue::as_str)).collect();
        let (own, topics): (Vec<bool>, Vec<Option<String>>) =
            sources.iter().map(due_filter).unzip();
        let walked = i64::try_from(NEXT_DUE_SCAN_MAX).unwrap_or(i64::MAX);
        let due: Vec<Option<i64>> = attempt!(self, |session| async {
            let params: [Param<'_>; 5] = [
                (&queues, Type::TEXT_ARRAY),
                (&MessageState::Pending.code(), Type::INT2),
                (&own, Type::BOOL_ARRAY),
                (&topics, Type::TEXT_ARRAY),
                (&walked, Type::INT8),
            ];
            let rows = session.query(&self.sql.next_due, &params).await?;
            let mut due = vec![None; sources.len()];
            for row in &rows {
                let place = usize::try_from(row.try_get::<_, i64>(0)? - 1).unwrap_or_default();
                let column = match sources.get(place) {
                    Some(WakeSource::Topics(_, topics)) if topics.is_none() => continue,
                    Some(WakeSource::Queue(_) | WakeSource::Topics(..)) => 1,
                    Some(WakeSource::Jobs) => 2,
                    Some(WakeSource::Leases) | None => continue,
                };
                due[place] = row.try_get::<_, Option<Micros>>(column)?.map(|at| at.0);
            }
            Ok(due)
        })?;
        for (query, due) in queries.into_iter().zip(&due) {
            query.finish(*due);
        }
        due.into_iter().map(|due| due.map(instant).transpose()).collect()
    }

    pub(crate) async fn time(&self) -> Result<Timestamp> {
        let rows = attempt!(self, |session| async {
            session.query_text("SELECT clock_timestamp()", &[]).await
        })?;
        let time = rows.first().map(|row| row.try_get::<_, Micros>(0)).transpose();
        let time = time.map_err(|error| StorageError::from(error).error_for_caller())?;
        instant(time.map_or(0, |time| time.0))
    }
}

/// Runs a statement that deletes at most `limit` rows; returns how many of each kind it deleted.
async fn removed(
    session: &Session<'_>,
    text: &str,
    before: Micros,
    limit: u64,
) -> Result<PruneResult, StorageError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let params: [Param<'_>; 2] = [(&before, Type::TIMESTAMPTZ), (&limit, Type::INT8)];
    counted(&session.query_text(text, &params).await?)
}
