//! Upkeep: beats, what is old enough to go, when each line is due, and the time.

use punctual::Result;
use punctual::jiff::Timestamp;
use punctual::model::ProcessId;
use punctual::storage::{Line, Prune, Pruned};
use punctual_rows::instant::{instant, micros, micros_up};
use tokio_postgres::types::Type;

use crate::days::is_short;
use crate::failure::Failure;
use crate::inner::{Inner, attempt};
use crate::session::Session;
use crate::statements::Sql;
use crate::value::{Micros, Param};

impl Inner {
    pub(crate) async fn beat(
        &self,
        process: ProcessId,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<()> {
        attempt!(self, |held| async {
            let params: [Param<'_>; 3] = [
                (&process.as_uuid(), Type::UUID),
                (&Micros(micros_up(until)), Type::TIMESTAMPTZ),
                (&Micros(micros_up(now)), Type::TIMESTAMPTZ),
            ];
            held.execute(&self.sql.beat, &params).await.map(|_| ())
        })
    }

    pub(crate) async fn prune(&self, prune: Prune, now: Timestamp) -> Result<Pruned> {
        let before = Micros(micros(prune.before));
        attempt!(self, |held| async {
            self.make_days(held).await?;
            let limit = prune.limit as u64;
            let mut messages =
                self.prune_table(held, ("finished", &self.sql.prune_finished), prune, now).await?;
            if prune.dead && messages < limit {
                let left = limit - messages;
                messages += removed(held, &self.sql.prune_dead, before, left).await?;
            }
            let history = ("execution", &self.sql.prune_executions);
            let executions = self.prune_table(held, history, prune, now).await?;
            held.execute(&self.sql.prune_processes, &[(&before, Type::TIMESTAMPTZ)]).await?;
            Ok(Pruned { messages, executions })
        })
    }

    /// Whole days first, which cost nothing, then at most the limit row by row.
    async fn prune_table(
        &self,
        held: &mut Session<'_>,
        (table, rest): (&str, &Sql),
        prune: Prune,
        now: Timestamp,
    ) -> Result<u64, Failure> {
        let dropped = self.drop_days(held, table, prune.before).await?;
        let limit = prune.limit as u64;
        let mut gone = removed(held, rest, Micros(micros(prune.before)), limit).await?;
        if is_short(prune.before, now) {
            gone += self.trim_day(held, table, prune.before, limit - gone).await?;
        }
        Ok(dropped + gone)
    }

    pub(crate) async fn next_due(&self, line: &Line) -> Result<Option<Timestamp>> {
        if *line == Line::Leases {
            return Ok(None);
        }
        Ok(self.look(std::slice::from_ref(line)).await?.pop().flatten())
    }

    /// The next due instants of several lines, in one statement.
    pub(crate) async fn look(&self, lines: &[Line]) -> Result<Vec<Option<Timestamp>>> {
        if lines.is_empty() {
            return Ok(Vec::new());
        }
        let looking: Vec<_> = lines.iter().map(|line| self.news.look(line)).collect();
        let queues: Vec<&str> = lines
            .iter()
            .map(|line| match line {
                Line::Queue(queue) => queue.as_str(),
                Line::Jobs | Line::Leases => "",
            })
            .collect();
        let due: Vec<Option<i64>> = attempt!(self, |held| async {
            let rows = held.query(&self.sql.next_due, &[(&queues, Type::TEXT_ARRAY)]).await?;
            let mut due = vec![None; lines.len()];
            for row in &rows {
                let place = usize::try_from(row.try_get::<_, i64>(0)? - 1).unwrap_or_default();
                let column = match lines.get(place) {
                    Some(Line::Queue(_)) => 1,
                    Some(Line::Jobs) => 2,
                    Some(Line::Leases) | None => continue,
                };
                due[place] = row.try_get::<_, Option<Micros>>(column)?.map(|at| at.0);
            }
            Ok(due)
        })?;
        for (looking, due) in looking.into_iter().zip(&due) {
            looking.told(*due);
        }
        due.into_iter().map(|due| due.map(instant).transpose()).collect()
    }

    pub(crate) async fn time(&self) -> Result<Timestamp> {
        let rows =
            attempt!(self, |held| async { held.ask("SELECT clock_timestamp()", &[]).await })?;
        let time = rows.first().map(|row| row.try_get::<_, Micros>(0)).transpose();
        let time = time.map_err(|error| Failure::from(error).into_error())?;
        instant(time.map_or(0, |time| time.0))
    }
}

/// Runs a statement that deletes at most a number and answers how many went.
async fn removed(
    held: &Session<'_>,
    sql: &Sql,
    before: Micros,
    limit: u64,
) -> Result<u64, Failure> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let params: [Param<'_>; 2] = [(&before, Type::TIMESTAMPTZ), (&limit, Type::INT8)];
    let rows = held.query(sql, &params).await?;
    let count: i64 = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
    Ok(u64::try_from(count).unwrap_or_default())
}
