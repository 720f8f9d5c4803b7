//! Between a task that reads a broker and the consumer that hands out what it read, for transports that
//! read ahead. The reader gives what one read brought, or an error; after an error it rests until somebody
//! asks again, so that a broker that is away is not asked more often than its consumer is.
//!
//! What came together goes on together: a consumer that woke for the first of many would settle a few at a
//! time, and each settling is a round trip.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::{Notify, mpsc, watch};

use crate::error::{Error, Result};

/// Both ends of a feed, for a consumer that may have so many in hand.
pub fn feed<T>(prefetch: usize) -> (Feed<T>, Intake<T>) {
    let (give, taken) = mpsc::unbounded_channel();
    let (stop, stopped) = watch::channel(false);
    let asked = Arc::new(Notify::new());
    let feed = Feed { taken: give, asked: asked.clone(), stop: stopped };
    let waiting = VecDeque::new();
    (feed, Intake { taken, asked, stop, prefetch, waiting, trouble: None, is_resting: false })
}

/// The reader's end. The channel has no bound of its own: the reader takes no more from the broker than
/// the prefetch allows.
#[derive(Debug)]
pub struct Feed<T> {
    /// Where what one read brought goes, and what went wrong.
    pub taken: mpsc::UnboundedSender<Result<Vec<T>>>,
    /// Notified when the consumer wants more after an error.
    pub asked: Arc<Notify>,
    /// True once the consumer wants nothing more.
    pub stop: watch::Receiver<bool>,
}

/// The consumer's end.
#[derive(Debug)]
pub struct Intake<T> {
    taken: mpsc::UnboundedReceiver<Result<Vec<T>>>,
    asked: Arc<Notify>,
    stop: watch::Sender<bool>,
    prefetch: usize,
    /// Read and not yet received.
    waiting: VecDeque<T>,
    /// The error behind what was received with it.
    trouble: Option<Error>,
    /// Whether the reader waits to be asked again.
    is_resting: bool,
}

impl<T> Intake<T> {
    /// Waits for what was read, at most `limit`, at least one. Cancel-safe. An error comes after all that
    /// was read before it.
    pub async fn receive(&mut self, limit: usize) -> Result<Vec<T>> {
        if *self.stop.borrow() {
            return Err(Error::conflict("the consumer is closed; subscribe again to receive more"));
        }
        if std::mem::take(&mut self.is_resting) {
            self.asked.notify_one();
        }
        while self.waiting.is_empty() && self.trouble.is_none() {
            let read = self.taken.recv().await;
            self.note(read.unwrap_or_else(|| {
                Err(Error::internal("the reader of the consumer has ended; subscribe again"))
            }));
        }
        let limit = limit.clamp(1, self.prefetch.max(1));
        while self.waiting.len() < limit
            && self.trouble.is_none()
            && let Ok(read) = self.taken.try_recv()
        {
            self.note(read);
        }
        match self.trouble.take_if(|_| self.waiting.is_empty()) {
            Some(error) => {
                self.is_resting = true;
                Err(error)
            }
            None => Ok(self.waiting.drain(..limit.min(self.waiting.len())).collect()),
        }
    }

    fn note(&mut self, read: Result<Vec<T>>) {
        match read {
            Ok(read) => self.waiting.extend(read),
            // The reader gives nothing more until it is asked again, so this is the last.
            Err(error) => self.trouble = Some(error),
        }
    }

    /// Tells the reader that nothing more is wanted; receiving is refused from here on.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Takes nothing more, and gives what was read and never received.
    pub fn unseen(&mut self) -> Vec<T> {
        self.taken.close();
        let mut unseen = Vec::from(std::mem::take(&mut self.waiting));
        while let Ok(read) = self.taken.try_recv() {
            unseen.extend(read.into_iter().flatten());
        }
        unseen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[tokio::test]
    async fn an_error_comes_last_and_the_reader_is_asked_again_after_it() {
        let (feed, mut intake) = feed::<u8>(3);
        for read in [Ok(vec![1]), Ok(vec![2]), Err(Error::unavailable("away"))] {
            feed.taken.send(read).unwrap();
        }
        assert_eq!(intake.receive(9).await.unwrap(), [1, 2]);
        assert_eq!(intake.receive(9).await.unwrap_err().kind(), ErrorKind::Unavailable);
        feed.taken.send(Ok(vec![3])).unwrap();
        assert_eq!(intake.receive(9).await.unwrap(), [3]);
        // It was asked by the call after the error, and not before.
        feed.asked.notified().await;
        for read in [Err(Error::unavailable("away")), Ok(vec![4])] {
            feed.taken.send(read).unwrap();
        }
        assert!(intake.receive(1).await.is_err());
        assert_eq!(intake.receive(1).await.unwrap(), [4]);
        feed.asked.notified().await;
    }

    #[tokio::test]
    async fn what_came_together_is_received_together_as_far_as_it_is_wanted() {
        let (feed, mut intake) = feed::<u8>(4);
        feed.taken.send(Ok(vec![1, 2, 3])).unwrap();
        feed.taken.send(Err(Error::unavailable("away"))).unwrap();
        assert_eq!(intake.receive(2).await.unwrap(), [1, 2]);
        assert_eq!(intake.receive(2).await.unwrap(), [3], "the error waits");
        assert_eq!(intake.receive(2).await.unwrap_err().kind(), ErrorKind::Unavailable);
        feed.taken.send(Ok(vec![])).unwrap();
        feed.taken.send(Ok(vec![4])).unwrap();
        assert_eq!(
            intake.receive(2).await.unwrap(),
            [4],
            "a read that brought nothing is no answer"
        );
    }

    #[tokio::test]
    async fn what_was_never_received_is_given_back_when_it_is_over() {
        let (feed, mut intake) = feed::<u8>(2);
        for read in [Ok(vec![1, 2, 3]), Ok(vec![4]), Err(Error::unavailable("away"))] {
            feed.taken.send(read).unwrap();
        }
        assert_eq!(intake.receive(9).await.unwrap(), [1, 2], "no more than the prefetch");
        intake.stop();
        assert!(*feed.stop.borrow());
        assert_eq!(intake.receive(1).await.unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(intake.unseen(), [3, 4]);
        assert!(feed.taken.send(Ok(vec![5])).is_err());
    }

    #[tokio::test]
    async fn a_reader_that_has_ended_is_said() {
        let (feed, mut intake) = feed::<u8>(2);
        drop(feed);
        assert_eq!(intake.receive(1).await.unwrap_err().kind(), ErrorKind::Internal);
    }
}
