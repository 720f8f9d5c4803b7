//! Group commit for single messages: what waits while one commit is under way goes into the next.
//! Nobody waits for company, and nobody is answered before their own commit.

use std::sync::{Arc, Mutex, PoisonError};

use punctual::jiff::Timestamp;
use punctual::storage::{Enqueued, Entry};
use punctual::{Error, Result};
use tokio::sync::oneshot;

use crate::inner::Inner;

/// The most entries of one commit.
const ENTRIES_MAX: usize = 500;
/// The most commits under way at once.
const WRITERS_MAX: usize = 4;
/// Batches from this size on have a commit of their own.
pub(crate) const ALONE_MIN: usize = 100;

/// What waits to be written.
#[derive(Default)]
pub(crate) struct Writer {
    state: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    batches: Vec<Batch>,
    writers: usize,
}

struct Batch {
    entries: Vec<Entry>,
    now: Timestamp,
    answer: oneshot::Sender<Result<Vec<Enqueued>>>,
}

impl Writer {
    /// Stores a small batch together with whatever else waits.
    pub(crate) async fn enqueue(
        self: &Arc<Self>,
        inner: &Arc<Inner>,
        entries: Vec<Entry>,
        now: Timestamp,
    ) -> Result<Vec<Enqueued>> {
        let (answer, answered) = oneshot::channel();
        if self.push(Batch { entries, now, answer }) {
            let (writer, inner) = (Arc::clone(self), Arc::clone(inner));
            tokio::spawn(async move { writer.write(&inner).await });
        }
        answered.await.unwrap_or_else(|_| Err(Error::unavailable("the runtime is shutting down")))
    }

    /// Keeps a batch; answers whether one more has to write.
    fn push(&self, batch: Batch) -> bool {
        let mut waiting = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.batches.push(batch);
        let more = waiting.writers < WRITERS_MAX;
        waiting.writers += usize::from(more);
        more
    }

    /// What goes into the next commit; with nothing left the writer is done.
    fn take(&self) -> Vec<Batch> {
        let mut waiting = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut count = 0;
        let fits = waiting.batches.iter().take_while(|batch| {
            count += batch.entries.len();
            count <= ENTRIES_MAX
        });
        let taken = fits.count().max(1).min(waiting.batches.len());
        let batches: Vec<Batch> = waiting.batches.drain(..taken).collect();
        if batches.is_empty() {
            waiting.writers -= 1;
        }
        batches
    }

    async fn write(&self, inner: &Arc<Inner>) {
        loop {
            let batches = self.take();
            if batches.is_empty() {
                return;
            }
            write_together(inner, batches).await;
        }
    }
}

/// One commit for all. When it fails for a reason that may lie in one of them, each has its own.
async fn write_together(inner: &Arc<Inner>, batches: Vec<Batch>) {
    let entries: Vec<Entry> =
        batches.iter().flat_map(|batch| batch.entries.iter().cloned()).collect();
    // A key that is held for a time is not free before anybody's own now.
    let now = batches.iter().map(|batch| batch.now).min().unwrap_or_default();
    match inner.enqueue(&entries, now).await {
        Ok(answers) => {
            let mut answers = answers.into_iter();
            for batch in batches {
                let own = answers.by_ref().take(batch.entries.len()).collect();
                // Who no longer waits has given up, not the message.
                let _ = batch.answer.send(Ok(own));
            }
        }
        Err(error) if error.is_temporary() && batches.len() > 1 => {
            for batch in batches {
                let _ = batch.answer.send(Err(Error::unavailable(error.to_string())));
            }
        }
        Err(error) if batches.len() == 1 => {
            for batch in batches {
                let _ = batch.answer.send(Err(Error::new(error.kind(), error.to_string())));
            }
        }
        Err(_) => {
            for batch in batches {
                let _ = batch.answer.send(inner.enqueue(&batch.entries, batch.now).await);
            }
        }
    }
}
