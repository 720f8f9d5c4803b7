//! Settles deliveries together: while calls are under way the next settlements gather, so that ten cost one
//! round trip. The same task extends what is in hand, and nothing is put back while it does: an extension
//! that overtook a settlement would undo it.
//!
//! The channel is bounded by the prefetch: each delivery in hand asks once. The task ends with the last of
//! those who can still ask, which are the consumer and the deliveries it gave out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_sqs::types::{
    BatchResultErrorEntry, ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry,
};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use punctual::clock::{Clock, add};
use punctual::{Error, Result};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::fault::Fault;
use crate::link::Link;
use crate::producer::{CALL_MAX, seconds};

/// The most calls at a time, beyond which settlements gather.
const CALLS_MAX: usize = 16;
/// The most settlements that are taken together.
const TOGETHER_MAX: usize = CALL_MAX * CALLS_MAX;
/// How often a call lets more gather.
const YIELDS_MAX: usize = 4;
/// A hold is extended so many times before it could run out.
const EXTENSIONS: u32 = 3;

/// Who hears how it went; nobody, for what was dropped.
type Answer = Option<oneshot::Sender<Result<()>>>;

/// What SQS calls a delivery.
pub(crate) type Handle = Arc<str>;

/// What is to be done with deliveries.
pub(crate) enum Request {
    /// Done with it.
    Delete(Handle, Answer),
    /// Others may have it after so many seconds.
    Free(Handle, i32, Answer),
    /// Says when everything asked before is settled.
    Flush(oneshot::Sender<()>),
}

/// Deliveries in hand, by number.
#[derive(Debug, Default)]
pub(crate) struct Held(Mutex<HashMap<u64, Handle>>);

impl Held {
    pub(crate) fn hold(&self, number: u64, handle: Handle) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(number, handle);
    }

    pub(crate) fn release(&self, number: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
    }

    fn handles(&self) -> Vec<Handle> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}

/// Where requests go.
#[derive(Debug)]
pub(crate) struct Settler {
    requests: mpsc::UnboundedSender<Request>,
}

/// What the task needs.
pub(crate) struct Settling {
    pub(crate) link: Link,
    pub(crate) queue: String,
    pub(crate) held: Arc<Held>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Without an extension for so long, others get a delivery.
    pub(crate) hold_length: Duration,
}

impl Settler {
    pub(crate) fn start(settling: Settling) -> Self {
        let (requests, asked) = mpsc::unbounded_channel();
        tokio::spawn(Arc::new(settling).run(asked));
        Self { requests }
    }

    /// Asks without waiting for the answer.
    pub(crate) fn ask(&self, request: Request) {
        // Without a runtime nobody settles any more; the hold runs out and others get it.
        let _ = self.requests.send(request);
    }

    /// Asks and waits for the answer.
    pub(crate) async fn settle(&self, request: impl FnOnce(Answer) -> Request) -> Result<()> {
        let (answer, heard) = oneshot::channel();
        self.ask(request(Some(answer)));
        heard.await.unwrap_or_else(|_| Err(stopped()))
    }

    /// Waits until everything asked before is settled.
    pub(crate) async fn flush(&self) {
        let (answer, heard) = oneshot::channel();
        self.ask(Request::Flush(answer));
        let _ = heard.await;
    }
}

impl Settling {
    async fn run(self: Arc<Self>, mut asked: mpsc::UnboundedReceiver<Request>) {
        let mut calls = JoinSet::new();
        let mut requests = Vec::new();
        let mut extend_at = self.next_extension();
        loop {
            tokio::select! {
                count = asked.recv_many(&mut requests, TOGETHER_MAX), if calls.len() < CALLS_MAX => {
                    if count == 0 {
                        break;
                    }
                    gather(&mut asked, &mut requests).await;
                    self.begin(requests.drain(..), &mut calls).await;
                }
                Some(_) = calls.join_next() => {}
                () = self.clock.sleep_until(extend_at) => {
                    self.extend().await;
                    extend_at = self.next_extension();
                }
            }
        }
        while calls.join_next().await.is_some() {}
    }

    fn next_extension(&self) -> punctual::jiff::Timestamp {
        add(self.clock.now(), self.hold_length / EXTENSIONS)
    }

    /// Begins the calls that settle requests, in the order in which they were made where that matters.
    async fn begin(
        self: &Arc<Self>,
        requests: impl Iterator<Item = Request>,
        calls: &mut JoinSet<()>,
    ) {
        let (mut deleted, mut freed, mut flushed) = (Vec::new(), Vec::new(), Vec::new());
        for request in requests {
            match request {
                Request::Delete(handle, answer) => deleted.push((handle, answer)),
                Request::Free(handle, after, answer) => freed.push(((handle, after), answer)),
                Request::Flush(answer) => flushed.push(answer),
            }
        }
        while !deleted.is_empty() {
            let rest = deleted.split_off(deleted.len().min(CALL_MAX));
            let (settling, piece) = (self.clone(), std::mem::replace(&mut deleted, rest));
            calls.spawn(async move {
                let (handles, answers): (Vec<_>, Vec<_>) = piece.into_iter().unzip();
                settling.tell(settling.delete(&handles).await, answers);
            });
        }
        while !freed.is_empty() {
            let rest = freed.split_off(freed.len().min(CALL_MAX));
            let (settling, piece) = (self.clone(), std::mem::replace(&mut freed, rest));
            calls.spawn(async move {
                let (changes, answers): (Vec<_>, Vec<_>) = piece.into_iter().unzip();
                settling.tell(settling.change(&changes).await, answers);
            });
        }
        if !flushed.is_empty() {
            while calls.join_next().await.is_some() {}
        }
        for answer in flushed {
            let _ = answer.send(());
        }
    }

    async fn delete(&self, handles: &[Handle]) -> Outcome {
        let entries = handles.iter().enumerate().map(|(number, handle)| {
            let entry = DeleteMessageBatchRequestEntry::builder();
            entry.id(number.to_string()).receipt_handle(&**handle).build()
        });
        let entries = entries.collect::<std::result::Result<Vec<_>, _>>();
        let entries = entries.map_err(|error| Error::internal(error.to_string()))?;
        let call = self.link.calls.delete_message_batch().queue_url(&self.queue);
        let answer = call.set_entries(Some(entries)).send().await;
        Ok(answer.map_err(|error| Fault::of(error, &self.link.place))?.failed)
    }

    /// Lets others have deliveries after so many seconds each.
    async fn change(&self, changes: &[(Handle, i32)]) -> Outcome {
        let entries = changes.iter().enumerate().map(|(number, (handle, after))| {
            let entry = ChangeMessageVisibilityBatchRequestEntry::builder().id(number.to_string());
            entry.receipt_handle(&**handle).visibility_timeout(*after).build()
        });
        let entries = entries.collect::<std::result::Result<Vec<_>, _>>();
        let entries = entries.map_err(|error| Error::internal(error.to_string()))?;
        let call = self.link.calls.change_message_visibility_batch().queue_url(&self.queue);
        let answer = call.set_entries(Some(entries)).send().await;
        Ok(answer.map_err(|error| Fault::of(error, &self.link.place))?.failed)
    }

    /// Tells each how it went.
    fn tell(&self, outcome: Outcome, answers: Vec<Answer>) {
        let again = |error: &Error| Error::new(error.kind(), error.to_string()).during("settle");
        for (number, answer) in answers.into_iter().enumerate() {
            let settled = match &outcome {
                Err(error) => Err(again(error)),
                Ok(failed) => failed
                    .iter()
                    .find(|entry| entry.id() == number.to_string())
                    .map_or(Ok(()), |entry| Err(Fault::of_entry(entry, &self.link.place).into())),
            };
            match answer {
                Some(answer) => _ = answer.send(settled),
                None => {
                    if let Err(error) = settled {
                        tracing::debug!(queue = self.queue, %error, "a delivery was not put back");
                    }
                }
            }
        }
    }

    /// Holds everything in hand for longer.
    async fn extend(&self) {
        let length = seconds(self.hold_length);
        let held = self.held.handles().into_iter().map(|handle| (handle, length));
        let held: Vec<_> = held.collect();
        for together in held.chunks(TOGETHER_MAX) {
            let mut calls = FuturesUnordered::new();
            for piece in together.chunks(CALL_MAX) {
                calls.push(self.change(piece));
            }
            while let Some(outcome) = calls.next().await {
                self.note(outcome);
            }
        }
    }

    fn note(&self, extended: Outcome) {
        match extended {
            Ok(failed) if failed.is_empty() => {}
            // Some may have been settled while we asked.
            Ok(failed) => {
                let count = failed.len();
                tracing::debug!(queue = self.queue, count, "deliveries were not held longer");
            }
            Err(error) => {
                tracing::warn!(queue = self.queue, %error, "deliveries were not held longer");
            }
        }
    }
}

/// What of a batch failed, or why all of it did.
type Outcome = Result<Vec<BatchResultErrorEntry>>;

/// Lets the attempts that are ready ask first: one call for ten instead of many for a few.
async fn gather(asked: &mut mpsc::UnboundedReceiver<Request>, requests: &mut Vec<Request>) {
    for _ in 0..YIELDS_MAX {
        tokio::task::yield_now().await;
        let before = requests.len();
        while requests.len() < TOGETHER_MAX
            && let Ok(request) = asked.try_recv()
        {
            requests.push(request);
        }
        if requests.len() == before {
            return;
        }
    }
}

fn stopped() -> Error {
    Error::unavailable("nobody settles deliveries any more; it will be delivered again")
}
