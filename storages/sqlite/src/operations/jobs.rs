//! Jobs: a record per name with a version, and columns for the queried fields. Each write compares the version
//! that the caller expects and increments it.

use punctual::backend::storage::{DeclareResult, DueJob, JobCommandResult};
use punctual::jiff::Timestamp;
use punctual::model::{JobCommand, JobName, JobPhase, JobRecord, MessageState, Queue};
use punctual_columns::code::Code as _;
use punctual_columns::instant::{micros, micros_up};
use punctual_columns::job::{differs, from_json, to_json};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::effects::Effects;
use crate::error::{StorageError, StorageResult, skip_corrupt};

const PUT: &str = "INSERT INTO punctual_job (name, due_at, paused, version, app, phase, record) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (name) DO UPDATE SET due_at = ?2, paused = ?3, \
     version = ?4, app = ?5, phase = ?6, record = ?7";

/// Selects the due jobs, with the number of their alive messages: running, due and pending, or pending after an
/// attempt. A paused message is due at the end of time and does not count.
pub(crate) const DUE: &str = "SELECT name, record, \
     (SELECT count(*) FROM punctual_message m WHERE m.job = j.name AND (m.state = 1 OR m.due_at <= ?1 \
     OR (m.due_at < 253402207200000000 AND (m.attempt > 0 OR m.snoozes > 0 OR m.crashes > 0)))) \
     FROM punctual_job j WHERE due_at <= ?1 ORDER BY due_at, name LIMIT ?2";

/// Deletes the messages of a job: pending, dead and ended ones.
const REMOVE_ALL: [&str; 3] = [
    "DELETE FROM punctual_message WHERE job = ?1 AND state = 0 RETURNING queue, 0, batch",
    "DELETE FROM punctual_dead WHERE job = ?1 RETURNING queue, 3, batch",
    "DELETE FROM punctual_history WHERE job = ?1 RETURNING queue, state, batch",
];

/// Creates or replaces a job, if its version is the expected one.
pub(crate) fn declare(
    transaction: &Connection,
    record: &JobRecord,
    seen: Option<u64>,
    now: Timestamp,
    effects: &mut Effects,
) -> StorageResult<DeclareResult> {
    let known = job(transaction, &record.job.name)?;
    if known.as_ref().is_some_and(|known| !differs(known, record)) {
        return Ok(DeclareResult::Unchanged);
    }
    if known.as_ref().map(|known| known.version) != seen {
        return Ok(DeclareResult::Raced);
    }
    let record = JobRecord {
        created_at: known.as_ref().map_or(record.created_at, |known| known.created_at),
        updated_at: now,
        version: seen.unwrap_or(0) + 1,
        ..record.clone()
    };
    put(transaction, &record, known.as_ref(), effects)?;
    Ok(if seen.is_some() { DeclareResult::Changed } else { DeclareResult::Created })
}

/// Applies a command of an operator, if the version of the job is the expected one.
pub(crate) fn command(
    transaction: &Connection,
    name: &JobName,
    (command, seen): (&JobCommand, u64),
    now: Timestamp,
    effects: &mut Effects,
) -> StorageResult<JobCommandResult> {
    let Some(known) = job(transaction, name)? else { return Ok(JobCommandResult::Unknown) };
    if known.version != seen {
        return Ok(JobCommandResult::Raced);
    }
    let record = known.with_command(command, now)?;
    put(transaction, &record, Some(&known), effects)?;
    Ok(JobCommandResult::Applied(Box::new(record)))
}

/// Removes a job, if its version is the expected one, with its history and its messages that are not running.
pub(crate) fn remove(
    transaction: &Connection,
    name: &JobName,
    seen: u64,
    effects: &mut Effects,
) -> StorageResult<JobCommandResult> {
    let Some(known) = job(transaction, name)? else { return Ok(JobCommandResult::Unknown) };
    if known.version != seen {
        return Ok(JobCommandResult::Raced);
    }
    transaction
        .prepare_cached("DELETE FROM punctual_job WHERE name = ?1")?
        .execute([name.as_str()])?;
    effects.job_moved(known.due_at().map(micros_up), None);
    remove_messages(transaction, name, effects)?;
    Ok(JobCommandResult::Applied(Box::new(known)))
}

fn remove_messages(
    transaction: &Connection,
    name: &JobName,
    effects: &mut Effects,
) -> StorageResult<()> {
    for sql in REMOVE_ALL {
        let mut statement = transaction.prepare_cached(sql)?;
        let mut removed = statement.query([name.as_str()])?;
        while let Some(row) = removed.next()? {
            let queue = Queue::from(row.get::<_, String>(0)?);
            // An attempt that did not end its message is not counted.
            let Some(state) = row.get::<_, Option<i16>>(1)? else { continue };
            let state = MessageState::from_code(state)?;
            if state == MessageState::Pending {
                effects.was_taken(&queue);
                effects.left_batch(row.get(2)?);
            }
            effects.moved(&queue, 1, Some(state), None);
        }
    }
    Ok(())
}

/// Returns the due jobs, oldest first.
pub(crate) fn due_jobs(
    connection: &Connection,
    limit: usize,
    now: Timestamp,
) -> StorageResult<Vec<DueJob>> {
    let mut statement = connection.prepare_cached(DUE)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![micros(now), limit])?;
    let mut due = Vec::new();
    while let Some(row) = rows.next()? {
        let record = from_json(row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?);
        if let Some(record) = skip_corrupt(record.map_err(StorageError::from))? {
            due.push(DueJob { record, alive: row.get(2)? });
        }
    }
    Ok(due)
}

/// Returns the record of a job.
pub(crate) fn job(connection: &Connection, name: &JobName) -> StorageResult<Option<JobRecord>> {
    let sql = "SELECT record FROM punctual_job WHERE name = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let text: Option<String> = statement.query_row([name.as_str()], |row| row.get(0)).optional()?;
    Ok(text.map(|text| from_json(name.as_str(), &text)).transpose()?)
}

/// Stores a record over the known one.
pub(super) fn put(
    transaction: &Connection,
    record: &JobRecord,
    known: Option<&JobRecord>,
    effects: &mut Effects,
) -> StorageResult<()> {
    let name = record.job.name.as_str();
    let due_at = record.due_at().map(micros_up);
    let version = i64::try_from(record.version).unwrap_or(i64::MAX);
    transaction.prepare_cached(PUT)?.execute(params![
        name,
        due_at,
        record.paused.is_some(),
        version,
        record.app,
        phase(record.phase()),
        to_json(record)?,
    ])?;
    effects.job_moved(known.and_then(JobRecord::due_at).map(micros_up), due_at);
    if known.is_some_and(|known| known.paused.is_some()) && record.paused.is_none() {
        effects.unblock_job(Some(name));
    }
    Ok(())
}

/// Returns the text that stands for a phase.
pub(crate) fn phase(phase: JobPhase) -> &'static str {
    match phase {
        JobPhase::Active => "active",
        JobPhase::Paused => "paused",
        JobPhase::Retired => "retired",
    }
}
