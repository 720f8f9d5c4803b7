//! Messages that leave the hot table, removed many at a time: a statement opens the table and each of its
//! indexes, however few rows it removes.

use punctual::model::MessageId;
use rusqlite::Connection;

use crate::fault::Tried;

/// Removes a message from the hot table.
pub(crate) const REMOVE: &str = "DELETE FROM punctual_message WHERE id = ?1";
/// How many are removed together.
const TOGETHER: usize = 32;

/// Messages that have left already but for their rows.
pub(super) struct Removing<'a> {
    transaction: &'a Connection,
    left: Vec<MessageId>,
}

impl<'a> Removing<'a> {
    pub(super) fn new(transaction: &'a Connection) -> Self {
        Self { transaction, left: Vec::with_capacity(TOGETHER) }
    }

    /// Has a row removed, now or later.
    pub(super) fn remove(&mut self, id: MessageId) -> Tried<()> {
        self.left.push(id);
        if self.left.len() < TOGETHER {
            return Ok(());
        }
        let sql = concat!(
            "DELETE FROM punctual_message WHERE id IN (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ",
            "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        );
        let mut statement = self.transaction.prepare_cached(sql)?;
        for (index, id) in self.left.drain(..).enumerate() {
            statement.raw_bind_parameter(index + 1, id.as_uuid().as_bytes())?;
        }
        statement.raw_execute()?;
        Ok(())
    }

    /// Sees to it that the row of a message that has left is gone.
    pub(super) fn settle_down(&mut self, id: MessageId) -> Tried<()> {
        if self.left.contains(&id) { self.finish() } else { Ok(()) }
    }

    /// Removes what is left to remove.
    pub(super) fn finish(&mut self) -> Tried<()> {
        let mut statement = self.transaction.prepare_cached(REMOVE)?;
        for id in self.left.drain(..) {
            statement.execute([id.as_uuid().as_bytes()])?;
        }
        Ok(())
    }
}
