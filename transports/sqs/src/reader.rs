//! Reads ahead of the handlers, as far as the prefetch allows. One poll waits for messages; while polls
//! come back full there are more at a time.
//!
//! It never rests by itself: after an error it goes on when somebody asks for deliveries again. A poll is
//! never given up while there is time, because SQS may give a message to whoever has just hung up.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_sqs::types::{Message as Raw, MessageSystemAttributeName};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use punctual::clock::Clock;
use punctual::jiff::Timestamp;
use punctual::model::Topic;
use punctual::{Error, Result};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, watch};

use crate::fault::Fault;
use crate::lost::Lost;
use crate::names::{GroupNames, name_of};
use crate::producer::{CALL_MAX, seconds};
use crate::receipt::{Hand, SqsReceipt};
use crate::settler::Request;
use crate::topology::{self, Settings};
use crate::wire;

/// The most polls at a time.
const POLLS_MAX: usize = 8;

/// A delivery that nobody has seen yet.
pub(crate) struct Taken {
    pub(crate) poison: Option<String>,
    pub(crate) receipt: SqsReceipt,
}

impl Taken {
    /// Puts it back as one that nobody has seen.
    pub(crate) async fn hand_back(self) -> Result<()> {
        match self.poison {
            None => self.receipt.hand_back().await,
            // What cannot be read cannot be copied; dropping it puts it back.
            Some(_) => Ok(()),
        }
    }
}

/// Reads for one consumer.
pub(crate) struct Reader {
    pub(crate) hand: Arc<Hand>,
    pub(crate) topic: Topic,
    pub(crate) settings: Settings,
    pub(crate) names: GroupNames,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) hold_length: Duration,
    /// How long one poll waits.
    pub(crate) wait: Duration,
    pub(crate) room: Arc<Semaphore>,
    pub(crate) taken: mpsc::UnboundedSender<Result<Vec<Taken>>>,
    /// Rings when somebody asks again after an error.
    pub(crate) asked: Arc<Notify>,
    pub(crate) stop: watch::Receiver<bool>,
}

/// How far the reader is.
#[derive(Default)]
struct Progress {
    /// The number of the last delivery.
    number: u64,
    /// So many polls at a time.
    wanted: usize,
    /// Whether it waits to be asked again after an error.
    is_resting: bool,
    lost: Lost,
}

/// What a poll brought, and the room it was given.
struct Polled {
    started_at: Timestamp,
    answer: std::result::Result<Vec<Raw>, Fault>,
    room: OwnedSemaphorePermit,
}

impl Reader {
    /// Reads until told to stop, and then until the polls that are under way have come back.
    pub(crate) async fn run(self) {
        let mut stop = self.stop.clone();
        let mut polls = FuturesUnordered::new();
        let mut progress = Progress { wanted: 1, ..Progress::default() };
        loop {
            let is_stopped = *self.stop.borrow();
            if is_stopped && polls.is_empty() {
                return;
            }
            let is_reading = !is_stopped && !progress.is_resting;
            while is_reading && polls.len() < progress.wanted {
                let Some(room) = self.room_now() else { break };
                polls.push(self.poll(room));
            }
            tokio::select! {
                biased;
                Some(polled) = polls.next() => self.take(polled, &mut progress).await,
                _ = stop.changed(), if !is_stopped => {}
                () = self.asked.notified(), if progress.is_resting => progress.is_resting = false,
                room = self.some_room(), if is_reading && polls.len() < progress.wanted => {
                    polls.push(self.poll(room));
                }
            }
        }
    }

    /// Takes what a poll brought.
    async fn take(&self, polled: Polled, progress: &mut Progress) {
        let started_at = polled.started_at;
        match self.give(polled, progress).await {
            Ok(true) => progress.wanted = (progress.wanted + 1).min(POLLS_MAX),
            Ok(false) => progress.wanted = 1,
            Err(error) => {
                progress.wanted = 1;
                progress.is_resting = true;
                progress.lost.lose(started_at);
                let _ = self.taken.send(Err(error));
            }
        }
    }

    /// As much room as one poll needs, of what there is.
    fn room_now(&self) -> Option<OwnedSemaphorePermit> {
        let most = self.room.available_permits().min(CALL_MAX);
        let most = u32::try_from(most).unwrap_or(1);
        (most > 0).then(|| self.room.clone().try_acquire_many_owned(most).ok()).flatten()
    }

    /// Waits for room for one.
    async fn some_room(&self) -> OwnedSemaphorePermit {
        match self.room.clone().acquire_owned().await {
            Ok(room) => room,
            // It is never closed.
            Err(_) => std::future::pending().await,
        }
    }

    async fn poll(&self, mut room: OwnedSemaphorePermit) -> Polled {
        let started_at = self.clock.now();
        // What came back since is taken as well.
        while room.num_permits() < CALL_MAX
            && let Ok(more) = self.room.clone().try_acquire_owned()
        {
            room.merge(more);
        }
        let Hand { link, queues, .. } = &*self.hand;
        let call = link.polls.receive_message().queue_url(&queues.queue);
        let call = call.max_number_of_messages(i32::try_from(room.num_permits()).unwrap_or(1));
        let call = call.wait_time_seconds(seconds(self.wait));
        let call =
            call.visibility_timeout(seconds(self.hold_length)).message_attribute_names("All");
        let call = call
            .message_system_attribute_names(MessageSystemAttributeName::ApproximateReceiveCount)
            .message_system_attribute_names(MessageSystemAttributeName::SentTimestamp)
            .message_system_attribute_names(
                MessageSystemAttributeName::ApproximateFirstReceiveTimestamp,
            );
        let answer = call.send().await.map_err(|error| Fault::of(error, &link.place));
        Polled {
            answer: answer.map(|answer| answer.messages.unwrap_or_default()),
            room,
            started_at,
        }
    }

    /// Makes deliveries of what a poll brought; whether it brought all it could.
    async fn give(&self, polled: Polled, progress: &mut Progress) -> Result<bool> {
        let Polled { answer, mut room, .. } = polled;
        let found = match answer {
            Ok(found) => found,
            Err(fault) if fault.is_without_queue() && self.settings.declares => {
                let link = &self.hand.link;
                topology::declare(link, &self.settings, &self.names).await?;
                return Ok(false);
            }
            Err(fault) => return Err(Error::from(fault).during("receive")),
        };
        let is_full = found.len() == room.num_permits();
        let mut taken = Vec::with_capacity(found.len());
        for raw in found {
            let Some(room) = room.split(1) else { break };
            taken.extend(self.delivery(raw, room, progress));
        }
        if !*self.stop.borrow() {
            let _ = self.taken.send(Ok(taken));
            return Ok(is_full);
        }
        for one in taken {
            if let Err(error) = one.hand_back().await {
                tracing::debug!(%error, "a delivery was put back with an attempt spent");
            }
        }
        Ok(is_full)
    }

    fn delivery(
        &self,
        mut raw: Raw,
        room: OwnedSemaphorePermit,
        progress: &mut Progress,
    ) -> Option<Taken> {
        // Without one it cannot be settled, and comes again by itself.
        let handle = Arc::from(raw.receipt_handle.take()?);
        let hand = self.hand.clone();
        let queue = name_of(&hand.queues.queue);
        let mut read = wire::read(raw, &self.topic, queue, self.clock.now());
        let counted = progress.lost.counted(&mut read, self.wait);
        let received = read.received;
        if !received.is_for(&hand.group) {
            hand.settler.ask(Request::Delete(handle, None));
            return None;
        }
        progress.number += 1;
        hand.held.hold(progress.number, Arc::clone(&handle));
        let receipt = SqsReceipt {
            hand,
            number: progress.number,
            handle,
            attempt: received.attempt.saturating_add(counted),
            message: Arc::new(received.message),
            is_settled: false,
            _room: room,
        };
        Some(Taken { poison: received.poison, receipt })
    }
}
