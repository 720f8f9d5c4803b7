//! Group commit for small batches: batches that arrive while a commit is running share the next one. No batch
//! waits for others, and no call returns before its own commit.

use std::sync::{Arc, Mutex, PoisonError};

use punctual::backend::storage::{EnqueueResult, Entry};
use punctual::jiff::Timestamp;
use punctual::{Error, Result};
use tokio::sync::oneshot;

use crate::inner::Inner;

/// Most entries of one commit.
const ENTRIES_MAX: usize = 500;
/// Most concurrent commits.
const WRITERS_MAX: usize = 4;
/// Batches from this size on have a commit of their own.
pub(crate) const OWN_COMMIT_MIN: usize = 100;

/// Batches that wait to be written.
#[derive(Default)]
pub(crate) struct Writer {
    state: Mutex<WriterState>,
}

#[derive(Default)]
struct WriterState {
    batches: Vec<Batch>,
    writers: usize,
}

struct Batch {
    entries: Vec<Entry>,
    now: Timestamp,
    reply: oneshot::Sender<Result<Vec<EnqueueResult>>>,
}

impl Writer {
    /// Stores a small batch together with the others that wait.
    pub(crate) async fn enqueue(
        self: &Arc<Self>,
        inner: &Arc<Inner>,
        entries: Vec<Entry>,
        now: Timestamp,
    ) -> Result<Vec<EnqueueResult>> {
        let (reply, result) = oneshot::channel();
        if self.push(Batch { entries, now, reply }) {
            let (writer, inner) = (Arc::clone(self), Arc::clone(inner));
            tokio::spawn(async move { writer.write(&inner).await });
        }
        result.await.unwrap_or_else(|_| Err(Error::unavailable("the runtime is shutting down")))
    }

    /// Adds a batch; returns whether the caller has to start a writer task.
    fn push(&self, batch: Batch) -> bool {
        let mut waiting = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.batches.push(batch);
        let more = waiting.writers < WRITERS_MAX;
        waiting.writers += usize::from(more);
        more
    }

    /// Takes the batches of the next commit; none ends the writer task.
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

/// Stores all batches in one commit. When it fails for a reason that may lie in one batch, each gets its own
/// commit.
async fn write_together(inner: &Arc<Inner>, batches: Vec<Batch>) {
    let entries: Vec<Entry> =
        batches.iter().flat_map(|batch| batch.entries.iter().cloned()).collect();
    // A reserved key must not be free before the `now` of any caller.
    let now = batches.iter().map(|batch| batch.now).min().unwrap_or_default();
    match inner.enqueue(&entries, now).await {
        Ok(results) => {
            let mut results = results.into_iter();
            for batch in batches {
                let own = results.by_ref().take(batch.entries.len()).collect();
                // A caller that no longer waits has given up the call, not the message.
                let _ = batch.reply.send(Ok(own));
            }
        }
        Err(error) if error.is_temporary() && batches.len() > 1 => {
            for batch in batches {
                let _ = batch.reply.send(Err(Error::unavailable(error.to_string())));
            }
        }
        Err(error) if batches.len() == 1 => {
            for batch in batches {
                let _ = batch.reply.send(Err(Error::new(error.kind(), error.to_string())));
            }
        }
        Err(_) => {
            for batch in batches {
                let _ = batch.reply.send(inner.enqueue(&batch.entries, batch.now).await);
            }
        }
    }
}
