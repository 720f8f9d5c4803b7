//! Jobs: declared and steered by compare-and-set on their version.

use std::collections::HashSet;
use std::sync::Arc;

use punctual::Result;
use punctual::jiff::Timestamp;
use punctual::model::{JobName, JobPhase, JobRecord, State, Steer};
use punctual::storage::{Declared, DueJob, Line, Steered};
use punctual_rows::code::Code as _;
use punctual_rows::instant::{micros, micros_up};
use punctual_rows::job::{differs, read, written};
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::batches::Freed;
use crate::failure::Failure;
use crate::inner::{Inner, attempt};
use crate::session::Session;
use crate::turns::Turns;
use crate::value::Micros;

impl Inner {
    pub(crate) async fn declare(
        self: &Arc<Self>,
        record: &JobRecord,
        seen: Option<u64>,
        now: Timestamp,
    ) -> Result<Declared> {
        let (answer, waiting) = attempt!(self, |held| async {
            let known = self.job_record(held, &record.job.name).await?;
            let mut after = record.clone();
            if let Some(known) = &known {
                if !differs(known, record) {
                    return Ok((Declared::Unchanged, HashSet::new()));
                }
                after.created_at = known.created_at;
            }
            if known.as_ref().map(|known| known.version) != seen {
                return Ok((Declared::Raced, HashSet::new()));
            }
            after.updated_at = now;
            after.version = seen.unwrap_or(0) + 1;
            if !self.write_job(held, &after, seen).await? {
                // Somebody was faster, perhaps with the very same; look again.
                return Err(Failure::Raced);
            }
            let answer = if seen.is_some() { Declared::Changed } else { Declared::Created };
            Ok((answer, self.resumed(held, known.as_ref(), &after).await?))
        })?;
        if matches!(answer, Declared::Created | Declared::Changed) {
            self.tell_job(record);
        }
        self.tell_turns(waiting);
        Ok(answer)
    }

    pub(crate) async fn steer(
        self: &Arc<Self>,
        name: &JobName,
        steer: &Steer,
        seen: u64,
        now: Timestamp,
    ) -> Result<Steered> {
        let (answer, waiting) = attempt!(self, |held| async {
            let Some(known) = self.job_record(held, name).await? else {
                return Ok((Steered::Unknown, HashSet::new()));
            };
            if known.version != seen {
                return Ok((Steered::Raced, HashSet::new()));
            }
            let after = known.steered(steer, now)?;
            if !self.write_job(held, &after, Some(seen)).await? {
                return Err(Failure::Raced);
            }
            let waiting = self.resumed(held, Some(&known), &after).await?;
            Ok((Steered::Applied(Box::new(after)), waiting))
        })?;
        if let Steered::Applied(record) = &answer {
            self.tell_job(record);
        }
        self.tell_turns(waiting);
        Ok(answer)
    }

    pub(crate) async fn remove_job(self: &Arc<Self>, name: &JobName, seen: u64) -> Result<Steered> {
        let (answer, freed) = attempt!(self, |held| async {
            held.begin().await?;
            let answer = self.remove_within(held, name, seen).await?;
            held.commit().await?;
            Ok(answer)
        })?;
        self.tell_all(freed);
        Ok(answer)
    }

    async fn remove_within(
        &self,
        held: &Session<'_>,
        name: &JobName,
        seen: u64,
    ) -> Result<(Steered, Freed), Failure> {
        let names = vec![name.as_str()];
        let locked = held.query(&self.sql.jobs_lock, &[(&names, Type::TEXT_ARRAY)]).await?;
        // Read under the lock: it is what is removed.
        let record = self.job_record(held, name).await?;
        let Some(record) = record.filter(|_| !locked.is_empty()) else {
            return Ok((Steered::Unknown, Vec::new()));
        };
        if record.version != seen {
            return Ok((Steered::Raced, Vec::new()));
        }
        let mut pending: Vec<Uuid> = Vec::new();
        for row in held.query(&self.sql.jobs_alive, &[(&names, Type::TEXT_ARRAY)]).await? {
            if row.try_get::<_, i16>(2)? == State::Pending.code() {
                pending.push(row.try_get(0)?);
            }
        }
        let freed = self.remove_alive(held, &pending).await?;
        let schema = &self.schema.quoted;
        for text in [
            format!("DELETE FROM {schema}.history WHERE job = $1"),
            format!("DELETE FROM {schema}.dead WHERE job = $1"),
            format!("DELETE FROM {schema}.job WHERE name = $1"),
        ] {
            held.tell(&text, &[(&name.as_str(), Type::TEXT)]).await?;
        }
        Ok((Steered::Applied(Box::new(record)), freed))
    }

    pub(crate) async fn due_jobs(&self, limit: usize, now: Timestamp) -> Result<Vec<DueJob>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        attempt!(self, |held| async {
            let params: [crate::value::Param<'_>; 2] =
                [(&Micros(micros(now)), Type::TIMESTAMPTZ), (&limit, Type::INT8)];
            let rows = held.query(&self.sql.due_jobs, &params).await?;
            let read = |row: &tokio_postgres::Row| -> Result<DueJob, Failure> {
                let record = read(row.try_get(0)?, row.try_get(1)?)?;
                let alive = u32::try_from(row.try_get::<_, i64>(2)?).unwrap_or(u32::MAX);
                Ok(DueJob { record, alive })
            };
            rows.iter().map(read).collect()
        })
    }

    pub(crate) async fn move_jobs(
        &self,
        held: &Session<'_>,
        records: &[JobRecord],
    ) -> Result<(), Failure> {
        let rows: Vec<JobRow<'_>> = records.iter().map(JobRow::of).collect::<Result<_, _>>()?;
        let names: Vec<&str> = rows.iter().map(|row| row.name).collect();
        let due: Vec<Option<Micros>> = rows.iter().map(|row| row.due_at).collect();
        let paused: Vec<bool> = rows.iter().map(|row| row.paused).collect();
        let versions: Vec<i64> = rows.iter().map(|row| row.version).collect();
        let apps: Vec<&str> = rows.iter().map(|row| row.app).collect();
        let phases: Vec<i16> = rows.iter().map(|row| row.phase).collect();
        let texts: Vec<&str> = rows.iter().map(|row| row.record.as_str()).collect();
        let params: [crate::value::Param<'_>; 7] = [
            (&names, Type::TEXT_ARRAY),
            (&due, Type::TIMESTAMPTZ_ARRAY),
            (&paused, Type::BOOL_ARRAY),
            (&versions, Type::INT8_ARRAY),
            (&apps, Type::TEXT_ARRAY),
            (&phases, Type::INT2_ARRAY),
            (&texts, Type::TEXT_ARRAY),
        ];
        held.execute(&self.sql.jobs_move, &params).await.map(|_| ())
    }

    pub(crate) async fn job_record(
        &self,
        held: &Session<'_>,
        name: &JobName,
    ) -> Result<Option<JobRecord>, Failure> {
        let names = [name.as_str()];
        let rows = held.query(&self.sql.job_records, &[(&&names[..], Type::TEXT_ARRAY)]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(Some(read(row.try_get(0)?, row.try_get(1)?)?))
    }

    /// Writes a record over the version that was seen; answers whether it was still there.
    async fn write_job(
        &self,
        held: &Session<'_>,
        record: &JobRecord,
        seen: Option<u64>,
    ) -> Result<bool, Failure> {
        let row = JobRow::of(record)?;
        let table = format!("{}.job", self.schema.quoted);
        let text = match seen {
            None => format!(
                "INSERT INTO {table} (name, due_at, paused, version, app, phase, record) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7::json) ON CONFLICT DO NOTHING"
            ),
            Some(_) => format!(
                "UPDATE {table} SET due_at = $2, paused = $3, version = $4, app = $5, phase = $6, \
                 record = $7::json WHERE name = $1 AND version = $4 - 1"
            ),
        };
        let params: [crate::value::Param<'_>; 7] = [
            (&row.name, Type::TEXT),
            (&row.due_at, Type::TIMESTAMPTZ),
            (&row.paused, Type::BOOL),
            (&row.version, Type::INT8),
            (&row.app, Type::TEXT),
            (&row.phase, Type::INT2),
            (&row.record, Type::TEXT),
        ];
        Ok(held.tell(&text, &params).await? == 1)
    }

    /// The queues of what may go on, when a pause has ended.
    async fn resumed(
        &self,
        held: &Session<'_>,
        before: Option<&JobRecord>,
        after: &JobRecord,
    ) -> Result<HashSet<String>, Failure> {
        let ended = before.is_some_and(|before| before.paused.is_some()) && after.paused.is_none();
        let names: HashSet<String> =
            ended.then(|| after.job.name.as_str().to_owned()).into_iter().collect();
        self.waiting(held, &Turns::of_jobs(names), true).await
    }

    pub(crate) fn tell_job(self: &Arc<Self>, record: &JobRecord) {
        if let Some(due_at) = record.due_at() {
            self.tell(Line::Jobs, micros_up(due_at));
        }
    }
}

/// A job's record as columns.
struct JobRow<'a> {
    name: &'a str,
    due_at: Option<Micros>,
    paused: bool,
    version: i64,
    app: &'a str,
    phase: i16,
    record: String,
}

impl<'a> JobRow<'a> {
    fn of(record: &'a JobRecord) -> Result<Self, Failure> {
        Ok(Self {
            name: record.job.name.as_str(),
            due_at: record.due_at().map(|at| Micros(micros_up(at))),
            paused: record.paused.is_some(),
            version: i64::try_from(record.version).unwrap_or(i64::MAX),
            app: &record.app,
            phase: phase_code(record.phase()),
            record: written(record)?,
        })
    }
}

/// The number that stands for a phase.
pub(crate) fn phase_code(phase: JobPhase) -> i16 {
    match phase {
        JobPhase::Active => 0,
        JobPhase::Paused => 1,
        JobPhase::Retired => 2,
    }
}
