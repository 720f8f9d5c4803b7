//! One connection to the broker, from its welcome to its end: many callers publish on it at once, what they
//! publish is confirmed batch by batch, and what the broker sends comes out of a channel.
//!
//! It is never made again; whoever has one that ended opens another. Every wait on it has an end.

mod batch;
mod pump;
mod shared;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use punctual::clock::{add, within};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use self::batch::Batch;
use self::shared::{Shared, Waiting};
use crate::codec::{self, Head, Publish, Welcome};
use crate::dial::{Dial, Who};
use crate::fault::{REFUSAL, Trouble};
use crate::wire::Parcel;

/// The most messages unconfirmed at once, however many the broker would take.
const WINDOW_MAX: u16 = 16_384;
/// Pieces that wait to be written; whoever has more waits.
const PIECES_MAX: usize = 16;
/// Packets are written in pieces of about this many bytes.
const PIECE_BYTES: usize = 64 * 1024;

/// What the broker sends on a connection; closed when it has ended.
pub(crate) type Arriving = mpsc::UnboundedReceiver<Publish>;

/// A connection.
pub(crate) struct Link {
    shared: Arc<Shared>,
    out: mpsc::Sender<Order>,
    acks: mpsc::UnboundedSender<u16>,
    task: AbortHandle,
    pub(crate) welcome: Welcome,
    dial: Dial,
}

/// What the writing side is told.
enum Order {
    Write(BytesMut),
    /// Says goodbye and ends.
    End,
}

impl Link {
    /// Connects.
    pub(crate) async fn open(dial: &Dial, who: Who<'_>) -> Result<(Self, Arriving), Trouble> {
        let dialled = dial.open(who).await?;
        let welcome = dialled.welcome;
        let window = usize::from(welcome.receive_max.min(WINDOW_MAX));
        let shared = Arc::new(Shared::new(window, dial.version));
        let (out, orders) = mpsc::channel(PIECES_MAX);
        let (acks, acked) = mpsc::unbounded_channel();
        let (arrive, arriving) = mpsc::unbounded_channel();
        // None means that the broker does not look.
        let told = welcome.keep_alive.filter(|seconds| *seconds > 0);
        let keep_alive =
            told.map_or(dial.keep_alive, |seconds| Duration::from_secs(seconds.into()));
        let clock = dial.clock.clone();
        let ends = pump::Ends { orders, acked, arrive, clock, keep_alive };
        let run = pump::run(dialled, shared.clone(), ends);
        let task = tokio::spawn(run).abort_handle();
        let dial = dial.clone();
        Ok((Self { shared, out, acks, task, welcome, dial }, arriving))
    }

    /// Publishes messages in their order and waits until each is confirmed; answers how many of
    /// those that are awaited nobody had subscribed to, as far as the broker tells.
    pub(crate) async fn publish(&self, parcels: &[Parcel]) -> Result<usize, Trouble> {
        let batch = Arc::new(Batch::of(parcels.len()));
        let mut draft = Draft { shared: &self.shared, piece: BytesMut::new(), ids: Vec::new() };
        for parcel in parcels {
            if self.shared.window.available_permits() == 0 || draft.piece.len() >= PIECE_BYTES {
                self.send(&mut draft).await?;
            }
            self.room().await?;
            draft.ids.push(self.shared.expect(Waiting::Publish(batch.clone(), parcel.is_awaited))?);
            if let Err(trouble) = self.append(&mut draft, parcel) {
                self.send(&mut draft).await?;
                return Err(trouble);
            }
        }
        self.send(&mut draft).await?;
        self.confirmed(&batch).await
    }

    /// Publishes without waiting for a confirmation, retained.
    pub(crate) async fn announce(&self, topic: &str, payload: &[u8]) -> Result<(), Trouble> {
        let mut piece = BytesMut::new();
        let head = Head { topic, id: 0, retained: true, content_type: None };
        codec::publish(&mut piece, self.shared.version, head, std::iter::empty(), payload);
        self.write(piece).await
    }

    /// Acknowledges a message; answers whether the connection was still there to do it.
    pub(crate) fn ack(&self, id: u16) -> bool {
        self.shared.state().ended.is_none() && self.acks.send(id).is_ok()
    }

    /// Subscribes to filters, each with or without acknowledgements.
    pub(crate) async fn subscribe(&self, filters: &[(&str, bool)]) -> Result<(), Trouble> {
        let (answer, answered) = oneshot::channel();
        let id = self.shared.expect(Waiting::Subscribe(answer))?;
        let mut piece = BytesMut::new();
        codec::subscribe(&mut piece, self.shared.version, id, filters);
        self.write(piece).await?;
        let codes = self.answer(answered).await?;
        match codes.iter().find(|code| **code >= REFUSAL) {
            Some(code) => Err(Trouble::Refused("subscribe", *code)),
            None => Ok(()),
        }
    }

    pub(crate) async fn unsubscribe(&self, filters: &[&str]) -> Result<(), Trouble> {
        let (answer, answered) = oneshot::channel();
        let id = self.shared.expect(Waiting::Subscribe(answer))?;
        let mut piece = BytesMut::new();
        codec::unsubscribe(&mut piece, self.shared.version, id, filters);
        self.write(piece).await?;
        self.answer(answered).await.map(drop)
    }

    /// Ends the connection in order: everything before is written first, and no will is published.
    pub(crate) async fn end(&self) {
        let ended = self.shared.ended.notified();
        tokio::pin!(ended);
        ended.as_mut().enable();
        if self.out.send(Order::End).await.is_err() || self.has_ended() {
            return;
        }
        let until = add(self.dial.clock.now(), self.dial.timeout);
        let _ = within(&*self.dial.clock, until, ended).await;
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.shared.state().ended.is_some()
    }

    /// Why it ended, or that it has.
    pub(crate) fn trouble(&self) -> Trouble {
        self.shared.state().trouble()
    }

    async fn room(&self) -> Result<(), Trouble> {
        match self.in_time(self.shared.window.acquire()).await? {
            // Given back when the confirmation comes.
            Ok(permit) => {
                permit.forget();
                Ok(())
            }
            Err(_) => Err(self.trouble()),
        }
    }

    /// Appends a message under the last number of the draft; one that is too large leaves none behind.
    fn append(&self, draft: &mut Draft<'_>, parcel: &Parcel) -> Result<(), Trouble> {
        let Draft { piece, ids, .. } = draft;
        let Some(&id) = ids.last() else { return Ok(()) };
        let before = piece.len();
        let head = Head {
            topic: &parcel.topic,
            id,
            retained: parcel.retained,
            content_type: parcel.content_type.as_deref(),
        };
        let headers = parcel.headers.iter().map(|(name, value)| (&**name, value.as_str()));
        let version = self.shared.version;
        let fits = codec::publish(piece, version, head, headers, &parcel.payload);
        let (size, most) = (piece.len() - before, self.welcome.packet_max);
        if !fits || size > most {
            piece.truncate(before);
            ids.pop();
            self.shared.forget(id);
            let size = size.max(parcel.payload.len());
            return Err(Trouble::TooLarge { size, most });
        }
        Ok(())
    }

    async fn send(&self, draft: &mut Draft<'_>) -> Result<(), Trouble> {
        self.write(draft.piece.split()).await?;
        draft.ids.clear();
        Ok(())
    }

    async fn write(&self, piece: BytesMut) -> Result<(), Trouble> {
        if piece.is_empty() {
            return Ok(());
        }
        let written = self.in_time(self.out.send(Order::Write(piece))).await?;
        written.map_err(|_| self.trouble())
    }

    async fn confirmed(&self, batch: &Batch) -> Result<usize, Trouble> {
        let mut left = batch.left();
        loop {
            let done = batch.done.notified();
            tokio::pin!(done);
            done.as_mut().enable();
            if let Some(answer) = batch.answer() {
                return answer;
            }
            let waited = self.in_time(done).await;
            // A large batch may take long; what must not happen is that nothing moves.
            let now_left = batch.left();
            if let Err(silent) = waited
                && now_left == left
            {
                return batch.answer().unwrap_or(Err(silent));
            }
            left = now_left;
        }
    }

    async fn answer(&self, answered: oneshot::Receiver<Vec<u8>>) -> Result<Vec<u8>, Trouble> {
        self.in_time(answered).await?.map_err(|_| self.trouble())
    }

    async fn in_time<T>(&self, work: impl Future<Output = T>) -> Result<T, Trouble> {
        let Dial { clock, timeout, .. } = &self.dial;
        let done = within(&**clock, add(clock.now(), *timeout), work).await;
        done.ok_or(Trouble::Silent(*timeout))
    }
}

/// Messages that have a number and are not on their way. When whoever publishes them gives up, their
/// numbers and their room are free again.
struct Draft<'a> {
    shared: &'a Shared,
    piece: BytesMut,
    ids: Vec<u16>,
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        for id in self.ids.drain(..) {
            self.shared.forget(id);
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
        self.shared.end(Trouble::Lost("it was let go of".to_owned()));
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("dial", &self.dial).finish_non_exhaustive()
    }
}
