//! One call on its way through the writer: what to do, whom to answer. The work can be done again,
//! because a batch that was rolled back is.

use punctual::{Error, Result};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::effects::Effects;
use crate::fault::Tried;

/// A call, whatever it answers with.
pub(super) trait Step: Send {
    /// Whether somebody still waits for the answer.
    fn is_wanted(&self) -> bool;

    /// Its size, roughly.
    fn rows(&self) -> usize;

    /// Does it inside a transaction and keeps the answer.
    fn run(&mut self, transaction: &Connection, effects: &mut Effects) -> Tried<()>;

    /// Keeps an error as the answer.
    fn fail(&mut self, error: Error);

    /// Sends the answer.
    fn answer(self: Box<Self>);
}

/// A call with its work and its answer.
pub(super) struct Call<T, F> {
    rows: usize,
    work: F,
    answer: Option<Result<T>>,
    caller: oneshot::Sender<Result<T>>,
}

impl<T, F> Call<T, F> {
    pub(super) fn new(rows: usize, work: F) -> (Self, oneshot::Receiver<Result<T>>) {
        let (caller, answer) = oneshot::channel();
        (Self { rows, work, answer: None, caller }, answer)
    }
}

impl<T, F> Step for Call<T, F>
where
    T: Send,
    F: FnMut(&Connection, &mut Effects) -> Tried<T> + Send,
{
    fn is_wanted(&self) -> bool {
        !self.caller.is_closed()
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn run(&mut self, transaction: &Connection, effects: &mut Effects) -> Tried<()> {
        self.answer = Some(Ok((self.work)(transaction, effects)?));
        Ok(())
    }

    fn fail(&mut self, error: Error) {
        self.answer = Some(Err(error));
    }

    fn answer(self: Box<Self>) {
        if let Some(answer) = self.answer {
            // Whoever stopped waiting misses nothing it may not repeat.
            let _ = self.caller.send(answer);
        }
    }
}
