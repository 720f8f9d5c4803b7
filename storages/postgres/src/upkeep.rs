//! Upkeep: beats, what is old enough to go, when each line is due, and the time.

use punctual::Result;
use punctual::jiff::Timestamp;
use punctual::model::{ProcessId, Queue, State};
use punctual::storage::{LOOK_MAX, Line, Prune, Pruned};
use punctual_rows::code::Code as _;
use punctual_rows::instant::{instant, micros, micros_up};
use tokio_postgres::types::Type;

use crate::days::{REST, counted, is_short};
use crate::failure::Failure;
use crate::inner::{Inner, attempt};
use crate::session::Session;
use crate::topics::looked_for;
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
            let mut pruned = self.prune_history(held, prune, now).await?;
            if prune.dead && pruned.messages < limit {
                let left = limit - pruned.messages;
                let letters = removed(held, &self.sql.prune_dead.text, before, left).await?;
                pruned.messages += letters.messages;
            }
            held.execute(&self.sql.prune_processes, &[(&before, Type::TIMESTAMPTZ)]).await?;
            let now = Micros(micros(now));
            let most = i64::try_from(prune.limit).unwrap_or(i64::MAX);
            for sql in [&self.sql.prune_keys, &self.sql.prune_rates] {
                held.execute(sql, &[(&now, Type::TIMESTAMPTZ), (&most, Type::INT8)]).await?;
            }
            Ok(pruned)
        })
    }

    /// Whole days first, which cost nothing, then at most the limit of each kind row by row.
    async fn prune_history(
        &self,
        held: &mut Session<'_>,
        prune: Prune,
        now: Timestamp,
    ) -> Result<Pruned, Failure> {
        let mut pruned = self.drop_days(held, prune.before).await?;
        let mut tables = vec![(REST.to_owned(), "ORDER BY ended_at")];
        if is_short(prune.before, now) {
            tables.extend(self.day_of(held, prune.before).await?.map(|day| (day, "")));
        }
        let before = Micros(micros(prune.before));
        let mut left = prune.limit as u64;
        for (table, order) in tables {
            let text = &self.sql.prune_history.text;
            let text = text.replace("{table}", &table).replace("{order}", order);
            // A row that is of one kind only leaves room for one of the other, so what is left shrinks
            // by half at least.
            while left > 0 {
                let gone = removed(held, &text, before, left).await?;
                if gone == Pruned::default() {
                    break;
                }
                left -= gone.messages.max(gone.executions).min(left);
                pruned.messages += gone.messages;
                pruned.executions += gone.executions;
            }
        }
        Ok(pruned)
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
        let queues: Vec<&str> =
            lines.iter().map(|line| line.queue().map_or("", Queue::as_str)).collect();
        let (own, topics): (Vec<bool>, Vec<Option<String>>) = lines.iter().map(looked_for).unzip();
        let walked = i64::try_from(LOOK_MAX).unwrap_or(i64::MAX);
        let due: Vec<Option<i64>> = attempt!(self, |held| async {
            let params: [Param<'_>; 5] = [
                (&queues, Type::TEXT_ARRAY),
                (&State::Pending.code(), Type::INT2),
                (&own, Type::BOOL_ARRAY),
                (&topics, Type::TEXT_ARRAY),
                (&walked, Type::INT8),
            ];
            let rows = held.query(&self.sql.next_due, &params).await?;
            let mut due = vec![None; lines.len()];
            for row in &rows {
                let place = usize::try_from(row.try_get::<_, i64>(0)? - 1).unwrap_or_default();
                let column = match lines.get(place) {
                    Some(Line::Topics(_, topics)) if topics.is_none() => continue,
                    Some(Line::Queue(_) | Line::Topics(..)) => 1,
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

/// Runs a statement that deletes at most a number of rows and answers how many of each kind went.
async fn removed(
    held: &Session<'_>,
    text: &str,
    before: Micros,
    limit: u64,
) -> Result<Pruned, Failure> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let params: [Param<'_>; 2] = [(&before, Type::TIMESTAMPTZ), (&limit, Type::INT8)];
    counted(&held.ask(text, &params).await?)
}
