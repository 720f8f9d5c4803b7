//! Calls that share a transaction: done together or not at all, and when one of them is at fault, all
//! but that one.

use std::time::Duration;

use punctual::Error;
use rusqlite::Connection;

use super::call::Step;
use crate::effects::Effects;
use crate::fault::{Fault, Tried};
use crate::patience::patiently;

/// The calls of one transaction.
pub(super) struct Batch {
    steps: Vec<Box<dyn Step>>,
}

impl Batch {
    pub(super) fn new(steps: Vec<Box<dyn Step>>) -> Self {
        Self { steps }
    }

    /// Does every call and commits; answers what there is to tell. An error means that nothing of any of them was stored.
    pub(super) fn run(
        &mut self,
        connection: &Connection,
        patience: Duration,
        told: impl Fn(&Fault) -> Error,
    ) -> Tried<Effects> {
        let done = within(connection, patience, |effects| {
            self.steps.iter_mut().try_for_each(|step| step.run(connection, effects))
        });
        match done {
            Err(fault) if self.steps.len() > 1 && !fault.concerns_everybody() => {
                within(connection, patience, |effects| self.one_by_one(connection, effects, &told))
            }
            done => done,
        }
    }

    /// Each call for itself; the news of one that fails are forgotten with it.
    fn one_by_one(
        &mut self,
        connection: &Connection,
        effects: &mut Effects,
        told: &impl Fn(&Fault) -> Error,
    ) -> Tried<()> {
        for step in &mut self.steps {
            connection.prepare_cached("SAVEPOINT punctual_step")?.execute([])?;
            let mut news = Effects::default();
            match step.run(connection, &mut news) {
                Ok(()) => effects.add(news),
                Err(fault) if fault.concerns_everybody() => return Err(fault),
                Err(fault) => {
                    connection.prepare_cached("ROLLBACK TO punctual_step")?.execute([])?;
                    step.fail(told(&fault));
                }
            }
            connection.prepare_cached("RELEASE punctual_step")?.execute([])?;
        }
        Ok(())
    }

    /// Tells everybody the same.
    pub(super) fn fail(&mut self, error: impl Fn() -> Error) {
        for step in &mut self.steps {
            step.fail(error());
        }
    }

    pub(super) fn answer(self) {
        for step in self.steps {
            step.answer();
        }
    }
}

/// Runs work in a transaction that has the write lock from its beginning.
fn within(
    connection: &Connection,
    patience: Duration,
    work: impl FnOnce(&mut Effects) -> Tried<()>,
) -> Tried<Effects> {
    patiently(patience, || statement(connection, "BEGIN IMMEDIATE"))?;
    let mut effects = Effects::default();
    let done = work(&mut effects).and_then(|()| {
        effects.write(connection)?;
        patiently(patience, || statement(connection, "COMMIT"))
    });
    match done {
        Ok(()) => Ok(effects),
        Err(fault) => {
            // After some errors SQLite has rolled back by itself.
            if !connection.is_autocommit() {
                let _ = statement(connection, "ROLLBACK");
            }
            Err(fault)
        }
    }
}

/// A number that changes when another connection wrote.
pub(super) fn data_version(connection: &Connection) -> Tried<i64> {
    let mut statement = connection.prepare_cached("PRAGMA data_version")?;
    Ok(statement.query_row([], |row| row.get(0))?)
}

fn statement(connection: &Connection, sql: &str) -> Tried<()> {
    connection.prepare_cached(sql)?.execute([])?;
    Ok(())
}
