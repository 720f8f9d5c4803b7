//! Between a task that reads a broker and the consumer that hands out what it read, for transports that
//! read ahead. The reader gives something or an error; after an error it rests until somebody asks
//! again, so that a broker that is away is not asked more often than its consumer is.

use std::sync::Arc;

use tokio::sync::{Notify, mpsc, watch};

use crate::error::{Error, Result};

/// Both ends of a feed, for a consumer that may have so many in hand.
pub fn feed<T>(prefetch: usize) -> (Feed<T>, Intake<T>) {
    let (give, taken) = mpsc::unbounded_channel();
    let (stop, stopped) = watch::channel(false);
    let asked = Arc::new(Notify::new());
    let feed = Feed { taken: give, asked: asked.clone(), stop: stopped };
    (feed, Intake { taken, asked, stop, prefetch, trouble: None, is_resting: false })
}

/// The reader's end. The channel has no bound of its own: the reader takes no more from the broker than
/// the prefetch allows.
#[derive(Debug)]
pub struct Feed<T> {
    /// Where what was read goes, and what went wrong.
    pub taken: mpsc::UnboundedSender<Result<T>>,
    /// Notified when the consumer wants more after an error.
    pub asked: Arc<Notify>,
    /// True once the consumer wants nothing more.
    pub stop: watch::Receiver<bool>,
}

/// The consumer's end.
#[derive(Debug)]
pub struct Intake<T> {
    taken: mpsc::UnboundedReceiver<Result<T>>,
    asked: Arc<Notify>,
    stop: watch::Sender<bool>,
    prefetch: usize,
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
        if let Some(error) = self.trouble.take() {
            self.is_resting = true;
            return Err(error);
        }
        if std::mem::take(&mut self.is_resting) {
            self.asked.notify_one();
        }
        let limit = limit.clamp(1, self.prefetch.max(1));
        let mut taken = Vec::with_capacity(limit);
        if self.taken.recv_many(&mut taken, limit).await == 0 {
            return Err(Error::internal("the reader of the consumer has ended; subscribe again"));
        }
        let mut received = Vec::with_capacity(taken.len());
        for one in taken {
            match one {
                Ok(one) => received.push(one),
                // The reader gives nothing more until it is asked again, so this is the last.
                Err(error) => self.trouble = Some(error),
            }
        }
        match self.trouble.take_if(|_| received.is_empty()) {
            Some(error) => {
                self.is_resting = true;
                Err(error)
            }
            None => Ok(received),
        }
    }

    /// Tells the reader that nothing more is wanted; receiving is refused from here on.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Takes nothing more, and gives what was read and never received.
    pub fn unseen(&mut self) -> Vec<T> {
        self.taken.close();
        let mut unseen = Vec::new();
        while let Ok(one) = self.taken.try_recv() {
            unseen.extend(one);
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
        for one in [Ok(1), Ok(2), Err(Error::unavailable("away"))] {
            feed.taken.send(one).unwrap();
        }
        assert_eq!(intake.receive(9).await.unwrap(), [1, 2]);
        assert_eq!(intake.receive(9).await.unwrap_err().kind(), ErrorKind::Unavailable);
        feed.taken.send(Ok(3)).unwrap();
        assert_eq!(intake.receive(9).await.unwrap(), [3]);
        // It was asked by the call after the error, and not before.
        feed.asked.notified().await;
        for one in [Err(Error::unavailable("away")), Ok(4)] {
            feed.taken.send(one).unwrap();
        }
        assert!(intake.receive(1).await.is_err());
        assert_eq!(intake.receive(1).await.unwrap(), [4]);
        feed.asked.notified().await;
    }

    #[tokio::test]
    async fn what_was_never_received_is_given_back_when_it_is_over() {
        let (feed, mut intake) = feed::<u8>(2);
        for one in [Ok(1), Ok(2), Ok(3), Err(Error::unavailable("away"))] {
            feed.taken.send(one).unwrap();
        }
        assert_eq!(intake.receive(9).await.unwrap(), [1, 2], "no more than the prefetch");
        intake.stop();
        assert!(*feed.stop.borrow());
        assert_eq!(intake.receive(1).await.unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(intake.unseen(), [3]);
        assert!(feed.taken.send(Ok(4)).is_err());
    }

    #[tokio::test]
    async fn a_reader_that_has_ended_is_said() {
        let (feed, mut intake) = feed::<u8>(2);
        drop(feed);
        assert_eq!(intake.receive(1).await.unwrap_err().kind(), ErrorKind::Internal);
    }
}
