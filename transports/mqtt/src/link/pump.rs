//! The two directions of a connection, in one task: what is written, with a sign of life when there is
//! nothing to write, and what is read.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use punctual::clock::{Clock, add, within};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split};
use tokio::sync::mpsc;

use super::{Order, Shared};
use crate::codec::{self, Incoming, Publish};
use crate::dial::Dialled;
use crate::fault::Trouble;

/// Acknowledgements that go out in one piece.
const ACKS_MAX: usize = 1_024;
/// Room for what is read at once.
const READ_BYTES: usize = 64 * 1024;

/// Where a connection's packets come from and go to.
pub(super) struct Ends {
    pub(super) orders: mpsc::Receiver<Order>,
    pub(super) acked: mpsc::UnboundedReceiver<u16>,
    pub(super) arrive: mpsc::UnboundedSender<Publish>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) keep_alive: Duration,
}

pub(super) async fn run(dialled: Dialled, shared: Arc<Shared>, ends: Ends) {
    let Dialled { stream, rest, .. } = dialled;
    let (reading, writing) = split(stream);
    let Ends { orders, acked, arrive, clock, keep_alive } = ends;
    let writer = Writer { writing, orders, acked, clock: clock.clone(), keep_alive };
    let reader = Reader { reading, rest, arrive, clock, keep_alive, shared: shared.clone() };
    let trouble = tokio::select! {
        trouble = writer.run() => trouble,
        trouble = reader.run() => trouble,
    };
    shared.end(trouble);
}

struct Writer<W> {
    writing: W,
    orders: mpsc::Receiver<Order>,
    acked: mpsc::UnboundedReceiver<u16>,
    clock: Arc<dyn Clock>,
    keep_alive: Duration,
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    async fn run(mut self) -> Trouble {
        match self.serve().await {
            Ok(()) => Trouble::Lost("it was closed".to_owned()),
            Err(error) => Trouble::Lost(error.to_string()),
        }
    }

    async fn serve(&mut self) -> std::io::Result<()> {
        let mut piece = BytesMut::with_capacity(4 * ACKS_MAX);
        let mut ids = Vec::with_capacity(ACKS_MAX);
        loop {
            let next_sign = add(self.clock.now(), self.keep_alive / 2);
            let next = async {
                tokio::select! {
                    biased;
                    _ = self.acked.recv_many(&mut ids, ACKS_MAX), if !self.acked.is_closed() => None,
                    order = self.orders.recv() => Some(order),
                }
            };
            let next = within(&*self.clock, next_sign, next).await;
            for id in ids.drain(..) {
                codec::ack(&mut piece, id);
            }
            match next {
                None => codec::ping(&mut piece),
                Some(None) => {}
                Some(Some(Some(Order::Write(bytes)))) => {
                    self.writing.write_all(&bytes).await?;
                }
                Some(Some(Some(Order::End) | None)) => return self.end(piece).await,
            }
            self.writing.write_all(&piece).await?;
            self.writing.flush().await?;
            piece.clear();
        }
    }

    /// Writes what is left, and says goodbye.
    async fn end(&mut self, mut piece: BytesMut) -> std::io::Result<()> {
        while let Ok(id) = self.acked.try_recv() {
            codec::ack(&mut piece, id);
        }
        codec::disconnect(&mut piece);
        self.writing.write_all(&piece).await?;
        self.writing.shutdown().await
    }
}

struct Reader<R> {
    reading: R,
    rest: BytesMut,
    arrive: mpsc::UnboundedSender<Publish>,
    clock: Arc<dyn Clock>,
    keep_alive: Duration,
    shared: Arc<Shared>,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    async fn run(mut self) -> Trouble {
        loop {
            if let Err(trouble) = self.take() {
                return trouble;
            }
            self.rest.reserve(READ_BYTES);
            let until = add(self.clock.now(), self.keep_alive * 2);
            match within(&*self.clock, until, self.reading.read_buf(&mut self.rest)).await {
                None => return Trouble::Silent(self.keep_alive * 2),
                Some(Ok(0)) => return Trouble::Lost("the broker closed it".to_owned()),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Trouble::Lost(error.to_string()),
            }
        }
    }

    /// Takes every whole packet.
    fn take(&mut self) -> Result<(), Trouble> {
        while let Some(packet) = codec::next(&mut self.rest, self.shared.version)? {
            match packet {
                // Nobody listens on a connection that only publishes.
                Incoming::Publish(publish) => drop(self.arrive.send(publish)),
                Incoming::Confirmed { id, code } => self.shared.confirm(id, code),
                Incoming::Subscribed { id, codes } => self.shared.subscribed(id, codes),
                Incoming::Goodbye { code } => return Err(Trouble::Dismissed(code)),
                Incoming::Pong | Incoming::Welcome(_) => {}
            }
        }
        Ok(())
    }
}
