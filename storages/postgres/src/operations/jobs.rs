//! Jobs: declared and commanded by compare-and-set on their version.

use std::collections::HashSet;

use punctual::backend::storage::{DeclareResult, DueJob, JobCommandResult};
use punctual::jiff::Timestamp;
use punctual::model::{JobCommand, JobName, JobPhase, JobRecord, MessageState};
use punctual_columns::code::Code as _;
use punctual_columns::instant::{micros, micros_up};
use punctual_columns::job::{differs, from_json, to_json};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::error::StorageError;
use crate::inner::Inner;
use crate::operations::waiting_queues::FreedSlots;
use crate::pending_notifications::PendingNotifications;
use crate::session::Session;
use crate::value::{Micros, Param};

impl Inner {
    /// Declares a job; returns also the notifications that follow.
    pub(crate) async fn declare(
        &self,
        session: &Session<'_>,
        record: &JobRecord,
        seen: Option<u64>,
        now: Timestamp,
    ) -> Result<(DeclareResult, PendingNotifications), StorageError> {
        let known = self.job_record(session, &record.job.name).await?;
        let mut after = record.clone();
        if let Some(known) = &known {
            if !differs(known, record) {
                return Ok((DeclareResult::Unchanged, PendingNotifications::default()));
            }
            after.created_at = known.created_at;
        }
        if known.as_ref().map(|known| known.version) != seen {
            return Ok((DeclareResult::Raced, PendingNotifications::default()));
        }
        after.updated_at = now;
        after.version = seen.unwrap_or(0) + 1;
        if !self.write_job(session, &after, seen).await? {
            // Another process was faster, perhaps with the same declaration; the call is repeated.
            return Err(StorageError::Raced);
        }
        let result = if seen.is_some() { DeclareResult::Changed } else { DeclareResult::Created };
        Ok((result, self.job_changed(session, known.as_ref(), &after).await?))
    }

    /// Applies a command to a job; returns also the notifications that follow.
    pub(crate) async fn command_job(
        &self,
        session: &Session<'_>,
        name: &JobName,
        (command, seen): (&JobCommand, u64),
        now: Timestamp,
    ) -> Result<(JobCommandResult, PendingNotifications), StorageError> {
        let Some(known) = self.job_record(session, name).await? else {
            return Ok((JobCommandResult::Unknown, PendingNotifications::default()));
        };
        if known.version != seen {
            return Ok((JobCommandResult::Raced, PendingNotifications::default()));
        }
        let after = known.with_command(command, now)?;
        if !self.write_job(session, &after, Some(seen)).await? {
            return Err(StorageError::Raced);
        }
        let notifications = self.job_changed(session, Some(&known), &after).await?;
        Ok((JobCommandResult::Applied(Box::new(after)), notifications))
    }

    /// Removes a job with its messages; returns also the notifications that follow.
    pub(crate) async fn remove_job(
        &self,
        session: &Session<'_>,
        name: &JobName,
        seen: u64,
    ) -> Result<(JobCommandResult, PendingNotifications), StorageError> {
        let mut notifications = PendingNotifications::default();
        let names = vec![name.as_str()];
        let locked = session.query(&self.sql.jobs_lock, &[(&names, Type::TEXT_ARRAY)]).await?;
        // Read under the lock: it is the record that is removed.
        let record = self.job_record(session, name).await?;
        let Some(record) = record.filter(|_| !locked.is_empty()) else {
            return Ok((JobCommandResult::Unknown, notifications));
        };
        if record.version != seen {
            return Ok((JobCommandResult::Raced, notifications));
        }
        let mut pending: Vec<Uuid> = Vec::new();
        for row in session.query(&self.sql.jobs_alive, &[(&names, Type::TEXT_ARRAY)]).await? {
            if row.try_get::<_, i16>(2)? == MessageState::Pending.code() {
                pending.push(row.try_get(0)?);
            }
        }
        notifications.add_due_queues(self.remove_alive(session, &pending).await?);
        let schema = &self.schema.quoted;
        for text in [
            format!("DELETE FROM {schema}.history WHERE job = $1"),
            format!("DELETE FROM {schema}.dead WHERE job = $1"),
            format!("DELETE FROM {schema}.job WHERE name = $1"),
        ] {
            session.execute_text(&text, &[(&name.as_str(), Type::TEXT)]).await?;
        }
        Ok((JobCommandResult::Applied(Box::new(record)), notifications))
    }

    pub(crate) async fn due_jobs(
        &self,
        session: &Session<'_>,
        limit: usize,
        now: Timestamp,
    ) -> Result<Vec<DueJob>, StorageError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let params: [Param<'_>; 2] =
            [(&Micros(micros(now)), Type::TIMESTAMPTZ), (&limit, Type::INT8)];
        let rows = session.query(&self.sql.due_jobs, &params).await?;
        let read = |row: &Row| {
            let record = from_json(row.try_get(0)?, row.try_get(1)?)?;
            let alive = u32::try_from(row.try_get::<_, i64>(2)?).unwrap_or(u32::MAX);
            Ok(DueJob { record, alive })
        };
        rows.iter().map(read).collect()
    }

    pub(crate) async fn update_jobs(
        &self,
        session: &Session<'_>,
        records: &[JobRecord],
    ) -> Result<(), StorageError> {
        let rows: Vec<JobRow<'_>> = records.iter().map(JobRow::of).collect::<Result<_, _>>()?;
        let names: Vec<&str> = rows.iter().map(|row| row.name).collect();
        let due: Vec<Option<Micros>> = rows.iter().map(|row| row.due_at).collect();
        let paused: Vec<bool> = rows.iter().map(|row| row.paused).collect();
        let versions: Vec<i64> = rows.iter().map(|row| row.version).collect();
        let apps: Vec<&str> = rows.iter().map(|row| row.app).collect();
        let phases: Vec<i16> = rows.iter().map(|row| row.phase).collect();
        let texts: Vec<&str> = rows.iter().map(|row| row.record.as_str()).collect();
        let params: [Param<'_>; 7] = [
            (&names, Type::TEXT_ARRAY),
            (&due, Type::TIMESTAMPTZ_ARRAY),
            (&paused, Type::BOOL_ARRAY),
            (&versions, Type::INT8_ARRAY),
            (&apps, Type::TEXT_ARRAY),
            (&phases, Type::INT2_ARRAY),
            (&texts, Type::TEXT_ARRAY),
        ];
        session.execute(&self.sql.update_jobs, &params).await.map(|_| ())
    }

    pub(crate) async fn job_record(
        &self,
        session: &Session<'_>,
        name: &JobName,
    ) -> Result<Option<JobRecord>, StorageError> {
        let names = [name.as_str()];
        let rows = session.query(&self.sql.job_records, &[(&&names[..], Type::TEXT_ARRAY)]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(Some(from_json(row.try_get(0)?, row.try_get(1)?)?))
    }

    /// Writes a record over the expected version; returns whether that version was still stored.
    async fn write_job(
        &self,
        session: &Session<'_>,
        record: &JobRecord,
        seen: Option<u64>,
    ) -> Result<bool, StorageError> {
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
        let params: [Param<'_>; 7] = [
            (&row.name, Type::TEXT),
            (&row.due_at, Type::TIMESTAMPTZ),
            (&row.paused, Type::BOOL),
            (&row.version, Type::INT8),
            (&row.app, Type::TEXT),
            (&row.phase, Type::INT2),
            (&row.record, Type::TEXT),
        ];
        Ok(session.execute_text(&text, &params).await? == 1)
    }

    /// Returns the notifications that follow from a change of a job: of its due time, and of the queues whose
    /// messages may run again when its pause has ended.
    async fn job_changed(
        &self,
        session: &Session<'_>,
        before: Option<&JobRecord>,
        after: &JobRecord,
    ) -> Result<PendingNotifications, StorageError> {
        let mut notifications = PendingNotifications::default();
        notifications.add_job(after);
        let ended = before.is_some_and(|before| before.paused.is_some()) && after.paused.is_none();
        let names: HashSet<String> =
            ended.then(|| after.job.name.as_str().to_owned()).into_iter().collect();
        let waiting = self.waiting(session, &FreedSlots::of_jobs(names), true).await?;
        notifications.add_waiting(waiting);
        Ok(notifications)
    }
}

/// Record of a job as columns.
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
    fn of(record: &'a JobRecord) -> Result<Self, StorageError> {
        Ok(Self {
            name: record.job.name.as_str(),
            due_at: record.due_at().map(|at| Micros(micros_up(at))),
            paused: record.paused.is_some(),
            version: i64::try_from(record.version).unwrap_or(i64::MAX),
            app: &record.app,
            phase: phase_code(record.phase()),
            record: to_json(record)?,
        })
    }
}

/// Returns the number that stands for a phase.
pub(crate) fn phase_code(phase: JobPhase) -> i16 {
    match phase {
        JobPhase::Active => 0,
        JobPhase::Paused => 1,
        JobPhase::Retired => 2,
    }
}
