//! Batches: calls that share a transaction. They run together or not at all; when one of them fails, the others
//! run without it.

use std::time::Duration;

use punctual::Error;
use rusqlite::Connection;

use super::call::Step;
use crate::busy_timeout::retry_while_busy;
use crate::driver::at_once;
use crate::effects::Effects;
use crate::error::{StorageError, StorageResult};

/// Calls of one transaction.
pub(super) struct Batch {
    steps: Vec<Box<dyn Step>>,
}

impl Batch {
    pub(super) fn new(steps: Vec<Box<dyn Step>>) -> Self {
        Self { steps }
    }

    /// Runs every call and commits; returns the effects. After an error nothing of any call is stored.
    pub(super) fn run(
        &mut self,
        connection: &Connection,
        timeout: Duration,
        map_error: impl Fn(&StorageError) -> Error,
    ) -> StorageResult<Effects> {
        let done = within(connection, timeout, |effects| {
            self.steps.iter_mut().try_for_each(|step| step.run(connection, effects))
        });
        match done {
            Err(error) if self.steps.len() > 1 && !error.affects_whole_batch() => {
                within(connection, timeout, |effects| {
                    self.one_by_one(connection, effects, &map_error)
                })
            }
            done => done,
        }
    }

    /// Runs each call in a savepoint; the effects of a failing call are dropped with it.
    fn one_by_one(
        &mut self,
        connection: &Connection,
        effects: &mut Effects,
        map_error: &impl Fn(&StorageError) -> Error,
    ) -> StorageResult<()> {
        for step in &mut self.steps {
            connection.prepare_cached("SAVEPOINT punctual_step")?.execute([])?;
            let mut own_effects = Effects::default();
            match step.run(connection, &mut own_effects) {
                Ok(()) => effects.add(own_effects),
                Err(error) if error.affects_whole_batch() => return Err(error),
                Err(error) => {
                    connection.prepare_cached("ROLLBACK TO punctual_step")?.execute([])?;
                    step.fail(map_error(&error));
                }
            }
            connection.prepare_cached("RELEASE punctual_step")?.execute([])?;
        }
        Ok(())
    }

    /// Fails every call with the same error.
    pub(super) fn fail(&mut self, error: impl Fn() -> Error) {
        for step in &mut self.steps {
            step.fail(error());
        }
    }

    pub(super) fn reply(self) {
        for step in self.steps {
            step.reply();
        }
    }
}

/// Runs work in a transaction that takes the write lock at its beginning.
fn within(
    connection: &Connection,
    timeout: Duration,
    work: impl FnOnce(&mut Effects) -> StorageResult<()>,
) -> StorageResult<Effects> {
    retry_while_busy(timeout, || statement(connection, "BEGIN IMMEDIATE"))?;
    let mut effects = Effects::default();
    let done = work(&mut effects).and_then(|()| {
        at_once(effects.write(&connection))?;
        effects.find_unblocked(connection)?;
        retry_while_busy(timeout, || statement(connection, "COMMIT"))
    });
    match done {
        Ok(()) => Ok(effects),
        Err(error) => {
            // After some errors SQLite has rolled back already.
            if !connection.is_autocommit() {
                let _ = statement(connection, "ROLLBACK");
            }
            Err(error)
        }
    }
}

/// Returns a number that changes when another connection wrote.
pub(super) fn data_version(connection: &Connection) -> StorageResult<i64> {
    let mut statement = connection.prepare_cached("PRAGMA data_version")?;
    Ok(statement.query_row([], |row| row.get(0))?)
}

fn statement(connection: &Connection, sql: &str) -> StorageResult<()> {
    connection.prepare_cached(sql)?.execute([])?;
    Ok(())
}
