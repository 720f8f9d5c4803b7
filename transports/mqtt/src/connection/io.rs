//! I/O task of a connection, in both directions: writes packets, or a PINGREQ when there is nothing to write, and
//! reads packets.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use punctual::clock::{Clock, add, within};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split};
use tokio::sync::mpsc;

use super::{SharedState, WriteCommand};
use crate::codec::{self, Incoming, Publish};
use crate::connector::EstablishedStream;
use crate::error::ConnectionError;

/// Limit of the acknowledgements written at once.
const ACKS_MAX: usize = 1_024;
/// Size of the read buffer.
const READ_BYTES: usize = 64 * 1024;

/// Channels and timing of the task.
pub(super) struct IoChannels {
    pub(super) commands: mpsc::Receiver<WriteCommand>,
    pub(super) acked: mpsc::UnboundedReceiver<u16>,
    pub(super) publishes: mpsc::UnboundedSender<Publish>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) keep_alive: Duration,
}

pub(super) async fn run(opened: EstablishedStream, shared: Arc<SharedState>, channels: IoChannels) {
    let EstablishedStream { stream, rest, .. } = opened;
    let (input, output) = split(stream);
    let IoChannels { commands, acked, publishes, clock, keep_alive } = channels;
    let writer = Writer { output, commands, acked, clock: clock.clone(), keep_alive };
    let reader = Reader { input, rest, publishes, clock, keep_alive, shared: shared.clone() };
    let error = tokio::select! {
        error = writer.run() => error,
        error = reader.run() => error,
    };
    shared.end(error);
}

struct Writer<W> {
    output: W,
    commands: mpsc::Receiver<WriteCommand>,
    acked: mpsc::UnboundedReceiver<u16>,
    clock: Arc<dyn Clock>,
    keep_alive: Duration,
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    async fn run(mut self) -> ConnectionError {
        match self.serve().await {
            Ok(()) => ConnectionError::Lost("the connection was closed".to_owned()),
            Err(error) => ConnectionError::Lost(error.to_string()),
        }
    }

    async fn serve(&mut self) -> std::io::Result<()> {
        let mut buffer = BytesMut::with_capacity(4 * ACKS_MAX);
        let mut ids = Vec::with_capacity(ACKS_MAX);
        loop {
            let ping_at = add(self.clock.now(), self.keep_alive / 2);
            let next = async {
                tokio::select! {
                    biased;
                    _ = self.acked.recv_many(&mut ids, ACKS_MAX), if !self.acked.is_closed() => None,
                    command = self.commands.recv() => Some(command),
                }
            };
            let next = within(&*self.clock, ping_at, next).await;
            for id in ids.drain(..) {
                codec::ack(&mut buffer, id);
            }
            match next {
                None => codec::ping(&mut buffer),
                Some(None) => {}
                Some(Some(Some(WriteCommand::Write(bytes)))) => {
                    self.output.write_all(&bytes).await?;
                }
                Some(Some(Some(WriteCommand::End) | None)) => return self.end(buffer).await,
            }
            self.output.write_all(&buffer).await?;
            self.output.flush().await?;
            buffer.clear();
        }
    }

    /// Writes the remaining acknowledgements and a DISCONNECT.
    async fn end(&mut self, mut buffer: BytesMut) -> std::io::Result<()> {
        while let Ok(id) = self.acked.try_recv() {
            codec::ack(&mut buffer, id);
        }
        codec::disconnect(&mut buffer);
        self.output.write_all(&buffer).await?;
        self.output.shutdown().await
    }
}

struct Reader<R> {
    input: R,
    rest: BytesMut,
    publishes: mpsc::UnboundedSender<Publish>,
    clock: Arc<dyn Clock>,
    keep_alive: Duration,
    shared: Arc<SharedState>,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    async fn run(mut self) -> ConnectionError {
        loop {
            if let Err(error) = self.take() {
                return error;
            }
            self.rest.reserve(READ_BYTES);
            let until = add(self.clock.now(), self.keep_alive * 2);
            match within(&*self.clock, until, self.input.read_buf(&mut self.rest)).await {
                None => return ConnectionError::Timeout(self.keep_alive * 2),
                Some(Ok(0)) => {
                    return ConnectionError::Lost("the broker closed the connection".to_owned());
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return ConnectionError::Lost(error.to_string()),
            }
        }
    }

    /// Handles every complete packet.
    fn take(&mut self) -> Result<(), ConnectionError> {
        while let Some(packet) = codec::next(&mut self.rest, self.shared.version)? {
            match packet {
                // A connection that only publishes has no receiver.
                Incoming::Publish(publish) => drop(self.publishes.send(publish)),
                Incoming::PubAck { id, code } => self.shared.confirm(id, code),
                Incoming::SubAck { id, codes } => self.shared.subscribed(id, codes),
                Incoming::Disconnect { code } => return Err(ConnectionError::Disconnected(code)),
                Incoming::PingResponse | Incoming::ConnAck(_) => {}
            }
        }
        Ok(())
    }
}
