//! Connection to the broker, from CONNACK to its end: callers publish on it concurrently, a batch is confirmed as
//! one, and received messages come from a channel.
//!
//! A connection is never re-established; after its end the caller opens another one. Every wait on it has a timeout.

mod batch;
mod io;
mod state;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use punctual::clock::{add, within};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use self::batch::Batch;
use self::state::{PendingRequest, SharedState};
use crate::codec::{self, ConnAck, Publish, PublishHeader};
use crate::connector::{Connector, SessionOptions};
use crate::error::{ConnectionError, REFUSAL};
use crate::wire::Publication;

/// Limit of unconfirmed messages, whatever the broker allows.
const WINDOW_MAX: u16 = 16_384;
/// Limit of the buffers waiting to be written; further callers wait.
const BUFFERS_MAX: usize = 16;
/// Packets are collected into buffers of about this many bytes.
const BUFFER_BYTES: usize = 64 * 1024;

/// Messages received on a connection; closed when it has ended.
pub(crate) type Publishes = mpsc::UnboundedReceiver<Publish>;

/// A connection.
pub(crate) struct Connection {
    shared: Arc<SharedState>,
    out: mpsc::Sender<WriteCommand>,
    acks: mpsc::UnboundedSender<u16>,
    task: AbortHandle,
    pub(crate) connack: ConnAck,
    connector: Connector,
}

/// Commands to the writing task.
enum WriteCommand {
    Write(BytesMut),
    /// Sends DISCONNECT and ends.
    End,
}

impl Connection {
    /// Connects.
    pub(crate) async fn open(
        connector: &Connector,
        options: SessionOptions<'_>,
    ) -> Result<(Self, Publishes), ConnectionError> {
        let opened = connector.open(options).await?;
        let connack = opened.connack;
        let window = usize::from(connack.receive_max.min(WINDOW_MAX));
        let shared = Arc::new(SharedState::new(window, connector.version));
        let (out, commands) = mpsc::channel(BUFFERS_MAX);
        let (acks, acked) = mpsc::unbounded_channel();
        let (publish_sender, publishes) = mpsc::unbounded_channel();
        // Without a value the broker does not enforce a keep-alive.
        let server_keep_alive = connack.keep_alive.filter(|seconds| *seconds > 0);
        let keep_alive = server_keep_alive
            .map_or(connector.keep_alive, |seconds| Duration::from_secs(seconds.into()));
        let clock = connector.clock.clone();
        let channels =
            io::IoChannels { commands, acked, publishes: publish_sender, clock, keep_alive };
        let run = io::run(opened, shared.clone(), channels);
        let task = tokio::spawn(run).abort_handle();
        let connector = connector.clone();
        Ok((Self { shared, out, acks, task, connack, connector }, publishes))
    }

    /// Publishes messages in order and waits until each is confirmed. Returns how many of those that need a
    /// subscriber had none, as far as the broker reports it.
    pub(crate) async fn publish(
        &self,
        publications: &[Publication],
    ) -> Result<usize, ConnectionError> {
        let batch = Arc::new(Batch::of(publications.len()));
        let mut unsent =
            UnsentBatch { shared: &self.shared, buffer: BytesMut::new(), ids: Vec::new() };
        for publication in publications {
            if self.shared.window.available_permits() == 0 || unsent.buffer.len() >= BUFFER_BYTES {
                self.send(&mut unsent).await?;
            }
            self.acquire_window().await?;
            unsent.ids.push(
                self.shared
                    .expect(PendingRequest::Publish(batch.clone(), publication.needs_subscriber))?,
            );
            if let Err(error) = self.append(&mut unsent, publication) {
                self.send(&mut unsent).await?;
                return Err(error);
            }
        }
        self.send(&mut unsent).await?;
        self.confirmed(&batch).await
    }

    /// Publishes a retained message without waiting for a confirmation.
    pub(crate) async fn announce(
        &self,
        topic: &str,
        payload: &[u8],
    ) -> Result<(), ConnectionError> {
        let mut buffer = BytesMut::new();
        let head = PublishHeader { topic, id: 0, retained: true, content_type: None };
        codec::publish(&mut buffer, self.shared.version, head, std::iter::empty(), payload);
        self.write(buffer).await
    }

    /// Acknowledges a message; returns whether the connection still existed.
    pub(crate) fn ack(&self, id: u16) -> bool {
        self.shared.state().ended.is_none() && self.acks.send(id).is_ok()
    }

    /// Subscribes to filters, each with `QoS 1` or `QoS 0`.
    pub(crate) async fn subscribe(&self, filters: &[(&str, bool)]) -> Result<(), ConnectionError> {
        let (sender, response) = oneshot::channel();
        let id = self.shared.expect(PendingRequest::Subscribe(sender))?;
        let mut buffer = BytesMut::new();
        codec::subscribe(&mut buffer, self.shared.version, id, filters);
        self.write(buffer).await?;
        let codes = self.response(response).await?;
        match codes.iter().find(|code| **code >= REFUSAL) {
            Some(code) => Err(ConnectionError::Refused("subscribe", *code)),
            None => Ok(()),
        }
    }

    pub(crate) async fn unsubscribe(&self, filters: &[&str]) -> Result<(), ConnectionError> {
        let (sender, response) = oneshot::channel();
        let id = self.shared.expect(PendingRequest::Subscribe(sender))?;
        let mut buffer = BytesMut::new();
        codec::unsubscribe(&mut buffer, self.shared.version, id, filters);
        self.write(buffer).await?;
        self.response(response).await.map(drop)
    }

    /// Ends the connection cleanly: everything queued is written first, and no will is published.
    pub(crate) async fn end(&self) {
        let ended = self.shared.ended.notified();
        tokio::pin!(ended);
        ended.as_mut().enable();
        if self.out.send(WriteCommand::End).await.is_err() || self.has_ended() {
            return;
        }
        let until = add(self.connector.clock.now(), self.connector.timeout);
        let _ = within(&*self.connector.clock, until, ended).await;
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.shared.state().ended.is_some()
    }

    /// Returns why the connection ended.
    pub(crate) fn error(&self) -> ConnectionError {
        self.shared.state().error()
    }

    async fn acquire_window(&self) -> Result<(), ConnectionError> {
        match self.with_timeout(self.shared.window.acquire()).await? {
            // The permit is returned when the confirmation arrives.
            Ok(permit) => {
                permit.forget();
                Ok(())
            }
            Err(_) => Err(self.error()),
        }
    }

    /// Appends a message under the last identifier of the batch; one that is too large leaves no bytes behind.
    fn append(
        &self,
        unsent: &mut UnsentBatch<'_>,
        publication: &Publication,
    ) -> Result<(), ConnectionError> {
        let UnsentBatch { buffer, ids, .. } = unsent;
        let Some(&id) = ids.last() else { return Ok(()) };
        let before = buffer.len();
        let head = PublishHeader {
            topic: &publication.topic,
            id,
            retained: publication.retained,
            content_type: publication.content_type.as_deref(),
        };
        let headers = publication.headers.iter().map(|(name, value)| (&**name, value.as_str()));
        let version = self.shared.version;
        let fits = codec::publish(buffer, version, head, headers, &publication.payload);
        let (size, limit) = (buffer.len() - before, self.connack.packet_max);
        if !fits || size > limit {
            buffer.truncate(before);
            ids.pop();
            self.shared.forget(id);
            let size = size.max(publication.payload.len());
            return Err(ConnectionError::TooLarge { size, limit });
        }
        Ok(())
    }

    async fn send(&self, unsent: &mut UnsentBatch<'_>) -> Result<(), ConnectionError> {
        self.write(unsent.buffer.split()).await?;
        unsent.ids.clear();
        Ok(())
    }

    async fn write(&self, buffer: BytesMut) -> Result<(), ConnectionError> {
        if buffer.is_empty() {
            return Ok(());
        }
        let written = self.with_timeout(self.out.send(WriteCommand::Write(buffer))).await?;
        written.map_err(|_| self.error())
    }

    async fn confirmed(&self, batch: &Batch) -> Result<usize, ConnectionError> {
        let mut left = batch.left();
        loop {
            let done = batch.done.notified();
            tokio::pin!(done);
            done.as_mut().enable();
            if let Some(result) = batch.result() {
                return result;
            }
            let waited = self.with_timeout(done).await;
            // A large batch may take long; the call fails only if there is no progress.
            let now_left = batch.left();
            if let Err(timeout) = waited
                && now_left == left
            {
                return batch.result().unwrap_or(Err(timeout));
            }
            left = now_left;
        }
    }

    async fn response(
        &self,
        response: oneshot::Receiver<Vec<u8>>,
    ) -> Result<Vec<u8>, ConnectionError> {
        self.with_timeout(response).await?.map_err(|_| self.error())
    }

    async fn with_timeout<T>(&self, work: impl Future<Output = T>) -> Result<T, ConnectionError> {
        let Connector { clock, timeout, .. } = &self.connector;
        let done = within(&**clock, add(clock.now(), *timeout), work).await;
        done.ok_or(ConnectionError::Timeout(*timeout))
    }
}

/// Messages that have an identifier and are not written yet. When the publishing call is cancelled, their identifiers
/// and permits are freed.
struct UnsentBatch<'a> {
    shared: &'a SharedState,
    buffer: BytesMut,
    ids: Vec<u16>,
}

impl Drop for UnsentBatch<'_> {
    fn drop(&mut self) {
        for id in self.ids.drain(..) {
            self.shared.forget(id);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
        self.shared.end(ConnectionError::Lost("the connection was dropped".to_owned()));
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("connector", &self.connector).finish_non_exhaustive()
    }
}
