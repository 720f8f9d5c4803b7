//! Reader of a consumer: reads ahead of the handlers, as far as the prefetch allows. One poll waits for
//! messages; while polls return full, more run concurrently.
//!
//! It does not retry by itself: after an error it continues when the consumer asks for deliveries again. A poll
//! is not aborted while there is time, because SQS may deliver a message to a connection that was just closed.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_sqs::types::{Message as Raw, MessageSystemAttributeName};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use punctual::backend::transport::prefetch::PrefetchSender;
use punctual::clock::Clock;
use punctual::jiff::Timestamp;
use punctual::model::Topic;
use punctual::{Error, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::CallError;
use crate::lost_polls::LostPolls;
use crate::names::{GroupNames, name_of};
use crate::producer::{CALL_MAX, seconds};
use crate::receipt::{ConsumerContext, SqsReceipt};
use crate::settings::Settings;
use crate::settler::SettleAction;
use crate::topology;
use crate::wire;

/// Most concurrent polls.
const POLLS_MAX: usize = 8;

/// Delivery that `receive` has not returned yet.
pub(crate) struct PrefetchedDelivery {
    pub(crate) poison: Option<String>,
    pub(crate) receipt: SqsReceipt,
}

impl PrefetchedDelivery {
    /// Requeues the delivery without counting an attempt.
    pub(crate) async fn requeue_unattempted(self) -> Result<()> {
        match self.poison {
            None => self.receipt.requeue_unattempted().await,
            // An unreadable message cannot be copied; dropping its receipt requeues it.
            Some(_) => Ok(()),
        }
    }
}

/// Reader of one consumer.
pub(crate) struct Reader {
    pub(crate) context: Arc<ConsumerContext>,
    pub(crate) topic: Topic,
    pub(crate) settings: Settings,
    pub(crate) names: GroupNames,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) visibility_timeout: Duration,
    /// Longest time one poll waits.
    pub(crate) poll_timeout: Duration,
    pub(crate) capacity: Arc<Semaphore>,
    pub(crate) deliveries: PrefetchSender<PrefetchedDelivery>,
}

/// State of a reader.
#[derive(Default)]
struct ReaderState {
    /// Number of the last delivery.
    number: u64,
    /// Number of concurrent polls to run.
    polls_target: usize,
    /// Whether it waits to be resumed after an error.
    is_paused: bool,
    lost_polls: LostPolls,
}

/// Result of a poll, and its share of the prefetch.
struct PollResult {
    started_at: Timestamp,
    response: std::result::Result<Vec<Raw>, CallError>,
    capacity: OwnedSemaphorePermit,
}

impl Reader {
    /// Reads until it is stopped, and then until running polls have returned.
    pub(crate) async fn run(self) {
        let mut polls = FuturesUnordered::new();
        let mut state = ReaderState { polls_target: 1, ..ReaderState::default() };
        loop {
            let is_stopped = self.deliveries.is_stopped();
            if is_stopped && polls.is_empty() {
                return;
            }
            let is_reading = !is_stopped && !state.is_paused;
            while is_reading && polls.len() < state.polls_target {
                let Some(capacity) = self.try_acquire_capacity() else { break };
                polls.push(self.poll(capacity));
            }
            tokio::select! {
                biased;
                Some(result) = polls.next() => self.handle_poll(result, &mut state).await,
                () = self.deliveries.stopped(), if !is_stopped => {}
                () = self.deliveries.resumed(), if state.is_paused => state.is_paused = false,
                capacity = self.acquire_capacity(), if is_reading && polls.len() < state.polls_target => {
                    polls.push(self.poll(capacity));
                }
            }
        }
    }

    /// Handles the result of a poll.
    async fn handle_poll(&self, result: PollResult, state: &mut ReaderState) {
        let started_at = result.started_at;
        match self.deliver(result, state).await {
            Ok(true) => state.polls_target = (state.polls_target + 1).min(POLLS_MAX),
            Ok(false) => state.polls_target = 1,
            Err(error) => {
                state.polls_target = 1;
                state.is_paused = true;
                state.lost_polls.record(started_at);
                self.deliveries.send_error(error);
            }
        }
    }

    /// Returns capacity for one poll, as far as there is some now.
    fn try_acquire_capacity(&self) -> Option<OwnedSemaphorePermit> {
        let most = self.capacity.available_permits().min(CALL_MAX);
        let most = u32::try_from(most).unwrap_or(1);
        (most > 0).then(|| self.capacity.clone().try_acquire_many_owned(most).ok()).flatten()
    }

    /// Waits for capacity for one delivery.
    async fn acquire_capacity(&self) -> OwnedSemaphorePermit {
        match self.capacity.clone().acquire_owned().await {
            Ok(capacity) => capacity,
            // The semaphore is never closed.
            Err(_) => std::future::pending().await,
        }
    }

    async fn poll(&self, mut capacity: OwnedSemaphorePermit) -> PollResult {
        let started_at = self.clock.now();
        // Capacity that was returned since is used as well.
        while capacity.num_permits() < CALL_MAX
            && let Ok(more) = self.capacity.clone().try_acquire_owned()
        {
            capacity.merge(more);
        }
        let ConsumerContext { connection, queues, .. } = &*self.context;
        let call = connection.polls.receive_message().queue_url(&queues.queue);
        let call = call.max_number_of_messages(i32::try_from(capacity.num_permits()).unwrap_or(1));
        let call = call.wait_time_seconds(seconds(self.poll_timeout));
        let call = call
            .visibility_timeout(seconds(self.visibility_timeout))
            .message_attribute_names("All");
        let call = call
            .message_system_attribute_names(MessageSystemAttributeName::ApproximateReceiveCount)
            .message_system_attribute_names(MessageSystemAttributeName::SentTimestamp)
            .message_system_attribute_names(
                MessageSystemAttributeName::ApproximateFirstReceiveTimestamp,
            );
        let response =
            call.send().await.map_err(|error| CallError::map_error(error, &connection.endpoint));
        PollResult {
            response: response.map(|output| output.messages.unwrap_or_default()),
            capacity,
            started_at,
        }
    }

    /// Turns the result of a poll into deliveries; returns whether the poll was full.
    async fn deliver(&self, result: PollResult, state: &mut ReaderState) -> Result<bool> {
        let PollResult { response, mut capacity, .. } = result;
        let found = match response {
            Ok(found) => found,
            Err(error) if error.is_queue_missing() && self.settings.declares => {
                let connection = &self.context.connection;
                topology::declare(connection, &self.settings, &self.names).await?;
                return Ok(false);
            }
            Err(error) => return Err(Error::from(error).during("receive")),
        };
        let is_full = found.len() == capacity.num_permits();
        let mut deliveries = Vec::with_capacity(found.len());
        for raw in found {
            let Some(capacity) = capacity.split(1) else { break };
            deliveries.extend(self.delivery(raw, capacity, state));
        }
        if !self.deliveries.is_stopped() {
            self.deliveries.send(deliveries);
            return Ok(is_full);
        }
        for one in deliveries {
            if let Err(error) = one.requeue_unattempted().await {
                tracing::debug!(%error, "a delivery was requeued with an attempt counted");
            }
        }
        Ok(is_full)
    }

    fn delivery(
        &self,
        mut raw: Raw,
        capacity: OwnedSemaphorePermit,
        state: &mut ReaderState,
    ) -> Option<PrefetchedDelivery> {
        // Without a receipt handle it cannot be settled, and SQS delivers it again.
        let handle = Arc::from(raw.receipt_handle.take()?);
        let context = self.context.clone();
        let queue = name_of(&context.queues.queue);
        let now = self.clock.now();
        let mut decoded = wire::decode(raw, &self.topic, queue, now);
        let counted = state.lost_polls.receive_count(&mut decoded, self.poll_timeout);
        let received = decoded.received;
        if !received.is_for(&context.group) {
            context.settler.send(SettleAction::Delete(handle));
            return None;
        }
        state.number += 1;
        context.in_flight.insert(state.number, Arc::clone(&handle), now);
        let receipt = SqsReceipt {
            context,
            number: state.number,
            handle,
            attempt: received.attempt.saturating_add(counted),
            message: Arc::new(received.message),
            is_settled: false,
            _capacity: capacity,
        };
        Some(PrefetchedDelivery { poison: received.poison, receipt })
    }
}
