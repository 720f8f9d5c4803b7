//! Calls of the writer: the work and the caller of each. The work can be repeated, because a batch that was
//! rolled back runs again.

use punctual::{Error, Result};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::effects::Effects;
use crate::error::StorageResult;

/// Call with any type of result.
pub(super) trait Step: Send {
    /// Returns whether the caller still waits for the result.
    fn is_wanted(&self) -> bool;

    /// Returns the approximate size.
    fn rows(&self) -> usize;

    /// Runs the work inside a transaction and stores the result.
    fn run(&mut self, transaction: &Connection, effects: &mut Effects) -> StorageResult<()>;

    /// Stores an error as the result.
    fn fail(&mut self, error: Error);

    /// Sends the result to the caller.
    fn reply(self: Box<Self>);
}

/// Call with its work and its result.
pub(super) struct Call<T, F> {
    rows: usize,
    work: F,
    result: Option<Result<T>>,
    caller: oneshot::Sender<Result<T>>,
}

impl<T, F> Call<T, F> {
    pub(super) fn new(rows: usize, work: F) -> (Self, oneshot::Receiver<Result<T>>) {
        let (caller, result) = oneshot::channel();
        (Self { rows, work, result: None, caller }, result)
    }
}

impl<T, F> Step for Call<T, F>
where
    T: Send,
    F: FnMut(&Connection, &mut Effects) -> StorageResult<T> + Send,
{
    fn is_wanted(&self) -> bool {
        !self.caller.is_closed()
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn run(&mut self, transaction: &Connection, effects: &mut Effects) -> StorageResult<()> {
        self.result = Some(Ok((self.work)(transaction, effects)?));
        Ok(())
    }

    fn fail(&mut self, error: Error) {
        self.result = Some(Err(error));
    }

    fn reply(self: Box<Self>) {
        if let Some(result) = self.result {
            // A caller that stopped waiting may repeat the call.
            let _ = self.caller.send(result);
        }
    }
}
