//! Maintenance: heartbeats, takeover of expired leases, pruning, and the time of the database.

use punctual::backend::storage::{ClaimedMessage, Prune, PruneResult, Reclaim};
use punctual::jiff::Timestamp;
use punctual::model::ProcessId;
use punctual_columns::instant::{instant, micros, micros_up};
use punctual_columns::message::NameCache;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::error::StorageError;
use crate::history_partitions::{DEFAULT_PARTITION, counted, is_short};
use crate::inner::Inner;
use crate::operations::claim::{CLAIM_MAX, in_order};
use crate::row::claimed_message;
use crate::session::Session;
use crate::value::{Micros, Param};

impl Inner {
    pub(crate) async fn heartbeat(
        &self,
        session: &Session<'_>,
        process: ProcessId,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<(), StorageError> {
        let params: [Param<'_>; 3] = [
            (&process.as_uuid(), Type::UUID),
            (&Micros(micros_up(until)), Type::TIMESTAMPTZ),
            (&Micros(micros_up(now)), Type::TIMESTAMPTZ),
        ];
        session.execute(&self.sql.heartbeat, &params).await.map(|_| ())
    }

    /// Returns the earliest end of a lease or of its owner's heartbeat.
    pub(crate) async fn next_expiry(
        &self,
        session: &Session<'_>,
    ) -> Result<Option<Timestamp>, StorageError> {
        let rows = session.query(&self.sql.next_expiry, &[]).await?;
        let end: Option<Micros> = rows.first().map(|row| row.try_get(0)).transpose()?.flatten();
        Ok(end.map(|end| instant(end.0)).transpose()?)
    }

    pub(crate) async fn prune(
        &self,
        session: &mut Session<'_>,
        prune: Prune,
        now: Timestamp,
    ) -> Result<PruneResult, StorageError> {
        let before = Micros(micros(prune.before));
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

    pub(crate) async fn reclaim(
        &self,
        session: &Session<'_>,
        reclaim: &Reclaim,
        now: Timestamp,
    ) -> Result<Vec<ClaimedMessage>, StorageError> {
        let limit = i64::try_from(reclaim.limit.min(CLAIM_MAX)).unwrap_or(i64::MAX);
        let (owner, until) = (reclaim.owner.as_uuid(), micros_up(reclaim.until));
        let params: [Param<'_>; 4] = [
            (&Micros(micros_up(now)), Type::TIMESTAMPTZ),
            (&limit, Type::INT8),
            (&owner, Type::UUID),
            (&Micros(until), Type::TIMESTAMPTZ),
        ];
        let mut names = NameCache::default();
        let read = |row: &Row| claimed_message(row, None, &mut names, (owner, until));
        in_order(&session.query(&self.sql.reclaim, &params).await?, read)
    }
}

/// Returns the time of the server.
pub(crate) async fn time(session: &Session<'_>) -> Result<Timestamp, StorageError> {
    let rows = session.query_text("SELECT clock_timestamp()", &[]).await?;
    let time = rows.first().map(|row| row.try_get::<_, Micros>(0)).transpose()?;
    Ok(instant(time.map_or(0, |time| time.0))?)
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
