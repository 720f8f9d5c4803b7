//! Prefetch channel: between the task that reads a broker and the consumer that returns deliveries. The reader
//! sends what one read returned, or an error; after an error it waits until the consumer asks again, so that a
//! broker that is out of reach is not asked more often than its consumer is.
//!
//! Deliveries of one read are returned together: a consumer that woke for the first of many would settle a few
//! at a time, and each settlement is a round trip.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::{Notify, mpsc, watch};

use crate::error::{Error, Result};

/// Creates the channel of a consumer that may have `prefetch` deliveries in flight.
pub fn prefetch_channel<D>(prefetch: usize) -> (PrefetchSender<D>, PrefetchReceiver<D>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let (stop, stopped) = watch::channel(false);
    let resume = Arc::new(Notify::new());
    let receiver = PrefetchReceiver {
        receiver,
        resume: resume.clone(),
        stop,
        prefetch: prefetch.max(1),
        unreturned: VecDeque::new(),
        error: None,
        is_paused: false,
    };
    (PrefetchSender { sender, resume, stopped }, receiver)
}

/// The reader's end. The channel has no bound of its own: the reader reads no more than the prefetch allows.
#[derive(Debug)]
pub struct PrefetchSender<D> {
    sender: mpsc::UnboundedSender<Result<Vec<D>>>,
    resume: Arc<Notify>,
    stopped: watch::Receiver<bool>,
}

impl<D> Clone for PrefetchSender<D> {
    fn clone(&self) -> Self {
        let Self { sender, resume, stopped } = self;
        Self { sender: sender.clone(), resume: resume.clone(), stopped: stopped.clone() }
    }
}

impl<D> PrefetchSender<D> {
    /// Sends what one read returned. Without a consumer it is dropped.
    pub fn send(&self, deliveries: Vec<D>) {
        let _ = self.sender.send(Ok(deliveries));
    }

    /// Sends an error, which the consumer returns after all that was read before it. The reader waits for
    /// [`PrefetchSender::resumed`] then.
    pub fn send_error(&self, error: Error) {
        let _ = self.sender.send(Err(error));
    }

    /// Waits until the consumer asks again after an error.
    pub async fn resumed(&self) {
        self.resume.notified().await;
    }

    /// Returns whether the consumer wants no more deliveries.
    pub fn is_stopped(&self) -> bool {
        *self.stopped.borrow() || self.stopped.has_changed().is_err()
    }

    /// Waits until the consumer wants no more deliveries, or is gone.
    pub async fn stopped(&self) {
        let _ = self.stopped.clone().wait_for(|stopped| *stopped).await;
    }
}

/// The consumer's end.
#[derive(Debug)]
pub struct PrefetchReceiver<D> {
    receiver: mpsc::UnboundedReceiver<Result<Vec<D>>>,
    resume: Arc<Notify>,
    stop: watch::Sender<bool>,
    prefetch: usize,
    /// Read by the reader, and not yet returned.
    unreturned: VecDeque<D>,
    /// Error to return after `unreturned`.
    error: Option<Error>,
    /// Whether the reader waits to be resumed.
    is_paused: bool,
}

impl<D> PrefetchReceiver<D> {
    /// Waits for deliveries and returns at most `limit`, at least one. Cancel-safe. An error is returned after all that
    /// was read before it.
    pub async fn receive(&mut self, limit: usize) -> Result<Vec<D>> {
        if *self.stop.borrow() {
            return Err(Error::conflict("the consumer is closed; subscribe again to receive more"));
        }
        if std::mem::take(&mut self.is_paused) {
            self.resume.notify_one();
        }
        while self.unreturned.is_empty() && self.error.is_none() {
            let read = self.receiver.recv().await;
            self.store(read.unwrap_or_else(|| {
                Err(Error::internal("the reader of the consumer has ended; subscribe again"))
            }));
        }
        let limit = limit.clamp(1, self.prefetch);
        while self.unreturned.len() < limit
            && self.error.is_none()
            && let Ok(read) = self.receiver.try_recv()
        {
            self.store(read);
        }
        match self.error.take_if(|_| self.unreturned.is_empty()) {
            Some(error) => {
                self.is_paused = true;
                Err(error)
            }
            None => Ok(self.unreturned.drain(..limit.min(self.unreturned.len())).collect()),
        }
    }

    fn store(&mut self, read: Result<Vec<D>>) {
        match read {
            Ok(deliveries) => self.unreturned.extend(deliveries),
            // The reader sends nothing more until it is resumed, so this is the last.
            Err(error) => self.error = Some(error),
        }
    }

    /// Stops the reader; receiving is refused from here on.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Closes the channel and returns the deliveries that `receive` did not return.
    pub fn close(&mut self) -> Vec<D> {
        self.receiver.close();
        let mut unreturned = Vec::from(std::mem::take(&mut self.unreturned));
        while let Ok(read) = self.receiver.try_recv() {
            unreturned.extend(read.into_iter().flatten());
        }
        unreturned
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn unavailable() -> Error {
        Error::unavailable("away")
    }

    #[tokio::test]
    async fn an_error_comes_last_and_the_reader_is_resumed_after_it() {
        let (sender, mut receiver) = prefetch_channel::<u8>(3);
        sender.send(vec![1]);
        sender.send(vec![2]);
        sender.send_error(unavailable());
        assert_eq!(receiver.receive(9).await.unwrap(), [1, 2]);
        assert_eq!(receiver.receive(9).await.unwrap_err().kind(), ErrorKind::Unavailable);
        sender.send(vec![3]);
        assert_eq!(receiver.receive(9).await.unwrap(), [3]);
        // It was resumed by the call after the error, and not before.
        sender.resumed().await;
        sender.send_error(unavailable());
        sender.send(vec![4]);
        assert!(receiver.receive(1).await.is_err());
        assert_eq!(receiver.receive(1).await.unwrap(), [4]);
        sender.resumed().await;
    }

    #[tokio::test]
    async fn deliveries_of_one_read_are_returned_together_up_to_the_limit() {
        let (sender, mut receiver) = prefetch_channel::<u8>(4);
        sender.send(vec![1, 2, 3]);
        sender.send_error(unavailable());
        assert_eq!(receiver.receive(2).await.unwrap(), [1, 2]);
        assert_eq!(receiver.receive(2).await.unwrap(), [3], "the error waits");
        assert_eq!(receiver.receive(2).await.unwrap_err().kind(), ErrorKind::Unavailable);
        sender.send(vec![]);
        sender.send(vec![4]);
        assert_eq!(receiver.receive(2).await.unwrap(), [4], "an empty read is not returned");
    }

    #[tokio::test]
    async fn unreturned_deliveries_are_returned_by_close() {
        let (sender, mut receiver) = prefetch_channel::<u8>(2);
        sender.send(vec![1, 2, 3]);
        sender.send(vec![4]);
        sender.send_error(unavailable());
        assert_eq!(receiver.receive(9).await.unwrap(), [1, 2], "no more than the prefetch");
        receiver.stop();
        sender.stopped().await;
        assert!(sender.is_stopped());
        assert_eq!(receiver.receive(1).await.unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(receiver.close(), [3, 4]);
    }

    #[tokio::test]
    async fn a_reader_that_has_ended_is_an_error() {
        let (sender, mut receiver) = prefetch_channel::<u8>(2);
        drop(sender);
        assert_eq!(receiver.receive(1).await.unwrap_err().kind(), ErrorKind::Internal);
    }

    #[tokio::test]
    async fn a_dropped_consumer_stops_its_reader() {
        let (sender, receiver) = prefetch_channel::<u8>(2);
        drop(receiver);
        sender.stopped().await;
    }
}
