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
use punctual::model::Topic;
use punctual::{Error, Result};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, watch};

use crate::fault::Fault;
use crate::names::{GroupNames, name_of};
use crate::producer::{CALL_MAX, seconds};
use crate::receipt::{Hand, SqsReceipt};
use crate::settler::Request;
use crate::topology::{self, Settings};
use crate::wire::{self, Read};

/// The most polls at a time.
const POLLS_MAX: usize = 8;

/// A delivery that nobody has seen yet.
pub(crate) struct Taken {
    pub(crate) poison: Option<String>,
    pub(crate) receipt: SqsReceipt,
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
    pub(crate) taken: mpsc::UnboundedSender<Result<Taken>>,
    /// Rings when somebody asks again after an error.
    pub(crate) asked: Arc<Notify>,
    pub(crate) stop: watch::Receiver<bool>,
}

/// What a poll brought, and the room it was given.
struct Polled {
    answer: std::result::Result<Vec<Raw>, Fault>,
    room: OwnedSemaphorePermit,
}

impl Reader {
    /// Reads until told to stop, and then until the polls that are under way have come back.
    pub(crate) async fn run(self) {
        let mut stop = self.stop.clone();
        let mut polls = FuturesUnordered::new();
        let (mut number, mut wanted) = (0, 1);
        loop {
            let is_stopped = *self.stop.borrow();
            if is_stopped && polls.is_empty() {
                return;
            }
            while !is_stopped && polls.len() < wanted {
                let Some(room) = self.room_now() else { break };
                polls.push(self.poll(room));
            }
            let polled = tokio::select! {
                biased;
                Some(polled) = polls.next() => polled,
                _ = stop.changed(), if !is_stopped => continue,
                room = self.some_room(), if !is_stopped && polls.len() < wanted => {
                    polls.push(self.poll(room));
                    continue;
                }
            };
            match self.give(polled, &mut number).await {
                Ok(is_full) if is_full => wanted = (wanted + 1).min(POLLS_MAX),
                Ok(_) => wanted = 1,
                Err(error) => {
                    wanted = 1;
                    if self.taken.send(Err(error)).is_err() {
                        return;
                    }
                    tokio::select! {
                        biased;
                        _ = stop.changed() => {}
                        () = self.asked.notified() => {}
                    }
                }
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
        let call = call.visibility_timeout(seconds(self.hold_length)).message_attribute_names("All");
        let call = call
            .message_system_attribute_names(MessageSystemAttributeName::ApproximateReceiveCount)
            .message_system_attribute_names(MessageSystemAttributeName::SentTimestamp);
        let answer = call.send().await.map_err(|error| Fault::of(error, &link.place));
        Polled { answer: answer.map(|answer| answer.messages.unwrap_or_default()), room }
    }

    /// Makes deliveries of what a poll brought; whether it brought all it could.
    async fn give(&self, polled: Polled, number: &mut u64) -> Result<bool> {
        let Polled { answer, mut room } = polled;
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
        for raw in found {
            let Some(room) = room.split(1) else { break };
            *number += 1;
            self.give_one(raw, *number, room);
        }
        Ok(is_full)
    }

    fn give_one(&self, mut raw: Raw, number: u64, room: OwnedSemaphorePermit) {
        // Without one it cannot be settled, and comes again by itself.
        let Some(handle) = raw.receipt_handle.take() else { return };
        let hand = self.hand.clone();
        let queue = name_of(&hand.queues.queue);
        let Read { received, count } = wire::read(raw, &self.topic, queue, self.clock.now());
        let handle = Arc::from(handle);
        if !received.is_for(&hand.group) {
            hand.settler.ask(Request::Delete(handle, None));
            return;
        }
        hand.held.hold(number, Arc::clone(&handle));
        let receipt = SqsReceipt {
            hand,
            number,
            handle,
            attempt: received.attempt.saturating_add(count),
            message: Arc::new(received.message),
            is_settled: false,
            _room: room,
        };
        let _ = self.taken.send(Ok(Taken { poison: received.poison, receipt }));
    }
}
