//! Settles deliveries together: while one call is under way the next ones gather, so that many
//! acknowledgements cost one round trip. The channel is bounded by the prefetch: each delivery in hand asks
//! once.
//!
//! The task ends with the last of those who can still ask, which are the consumer and the deliveries it
//! gave out.

use std::sync::Arc;

use punctual::model::MessageId;
use punctual::{Error, Result};
use redis::RedisError;
use tokio::sync::{mpsc, oneshot};

use crate::desk::{Desk, Return};
use crate::streams::{Lane, Spot};

/// The most requests that are settled together.
const TOGETHER_MAX: usize = 1_024;
/// How often a call lets more gather after the last that came.
const QUIET_MAX: usize = 4;
/// After so many acknowledgements the topic's stream is trimmed.
const TRIM_EVERY: usize = 10_000;

/// Who hears how it went; nobody, for what was dropped.
type Answer = Option<oneshot::Sender<Result<()>>>;

/// What is to be settled.
pub(crate) enum Request {
    /// Done with an entry.
    Acknowledge(Spot, Answer),
    /// Put an entry back.
    PutBack(Return, Answer),
    /// Says when everything asked before is settled.
    Flush(oneshot::Sender<()>),
}

/// Where requests go.
#[derive(Clone, Debug)]
pub(crate) struct Settler {
    requests: mpsc::UnboundedSender<Request>,
}

impl Settler {
    /// Starts settling. With `trims`, what every group has handled is removed now and then.
    pub(crate) fn start(desk: Arc<Desk>, trims: bool) -> Self {
        let (requests, asked) = mpsc::unbounded_channel();
        tokio::spawn(run(desk, asked, trims));
        Self { requests }
    }

    /// Asks without waiting for the answer.
    pub(crate) fn ask(&self, request: Request) {
        // Without a runtime nobody settles any more; the hold runs out and others take over.
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

async fn run(desk: Arc<Desk>, mut asked: mpsc::UnboundedReceiver<Request>, trims: bool) {
    let mut requests = Vec::new();
    let mut acknowledged = 0;
    while asked.recv_many(&mut requests, TOGETHER_MAX).await > 0 {
        gather(&mut asked, &mut requests).await;
        acknowledged += settle(&desk, requests.drain(..)).await;
        if trims && acknowledged >= TRIM_EVERY {
            acknowledged = 0;
            if let Err(error) = desk.trim(Lane::Shared).await {
                tracing::warn!(stream = desk.streams.shared, %error, "a stream was not trimmed");
            }
        }
    }
}

/// Lets the attempts that are ready ask first: one call for many instead of many for a few.
async fn gather(asked: &mut mpsc::UnboundedReceiver<Request>, requests: &mut Vec<Request>) {
    let mut quiet = 0;
    while quiet < QUIET_MAX && requests.len() < TOGETHER_MAX {
        tokio::task::yield_now().await;
        let before = requests.len();
        while requests.len() < TOGETHER_MAX
            && let Ok(request) = asked.try_recv()
        {
            requests.push(request);
        }
        quiet = if requests.len() == before { quiet + 1 } else { 0 };
    }
}

/// Settles requests; answers how many entries of the topic's stream were acknowledged.
async fn settle(desk: &Desk, requests: impl Iterator<Item = Request>) -> usize {
    let (mut done, mut done_answers) = (Vec::new(), Vec::new());
    let (mut back, mut back_answers) = (Vec::new(), Vec::new());
    let mut flushed = Vec::new();
    for request in requests {
        match request {
            Request::Acknowledge(spot, answer) => {
                done.push(spot);
                done_answers.push(answer);
            }
            Request::PutBack(one, answer) => {
                back.push(one);
                back_answers.push(answer);
            }
            Request::Flush(answer) => flushed.push(answer),
        }
    }
    if !done.is_empty() {
        let ended = desk.acknowledge(&done).await;
        for answer in done_answers.into_iter().flatten() {
            let _ = answer.send(told(desk, ended.as_ref().err()));
        }
    }
    if !back.is_empty() {
        let ended = desk.put_back(&back).await;
        for (one, answer) in back.iter().zip(back_answers) {
            let Some(answer) = answer else { continue };
            let _ = answer.send(match &ended {
                Ok(lost) if lost.contains(&one.spot) => Err(lost_to_others(one.message)),
                ended => told(desk, ended.as_ref().err()),
            });
        }
    }
    for answer in flushed {
        let _ = answer.send(());
    }
    done.iter().filter(|spot| spot.lane == Lane::Shared).count()
}

fn told(desk: &Desk, error: Option<&RedisError>) -> Result<()> {
    error.map_or(Ok(()), |error| Err(desk.link.told(error).during("settle")))
}

/// The error of a delivery that was not held in time.
pub(crate) fn lost_to_others(message: MessageId) -> Error {
    Error::conflict(
        "the delivery is not ours any more: it was not held in time and somebody else got it",
    )
    .with("message", message)
}

fn stopped() -> Error {
    Error::unavailable("nobody settles deliveries any more; it will be delivered again")
}
