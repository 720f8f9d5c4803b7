//! Reader of a consumer: receives deliveries as far as the prefetch allows, settles them on command, and opens
//! the connection again when it is lost. It ends when the consumer is gone and none of its deliveries is in
//! flight.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fe2o3_amqp::Receiver;
use fe2o3_amqp::link::RecvError;
use fe2o3_amqp::link::delivery::DeliveryInfo;
use fe2o3_amqp::types::messaging::Body;
use fe2o3_amqp::types::primitives::Value;
use punctual::backend::transport::prefetch::PrefetchSender;
use punctual::clock;
use punctual::model::Topic;
use punctual::{Error, Result};
use tokio::sync::{mpsc, oneshot};

use crate::in_flight::InFlight;
use crate::receipt::{ConsumerContext, Disposition, ReaderCommand, ServiceBusReceipt, Settlement};
use crate::receiver_link::ReceiverLink;
use crate::settings::Settings;
use crate::settler;
use crate::wire::{self, DecodedDelivery};

/// Most commands that are handled together.
const COMMANDS_MAX: usize = 256;
/// Silence after which nothing more is expected, after the broker was asked to drain.
const DRAIN_SILENCE: Duration = Duration::from_millis(100);

/// Delivery that `receive` has not returned yet.
pub(crate) struct PrefetchedDelivery {
    pub(crate) poison: Option<String>,
    pub(crate) receipt: ServiceBusReceipt,
}

/// Reader of one consumer.
pub(crate) struct Reader {
    pub(crate) context: Arc<ConsumerContext>,
    pub(crate) topic: Topic,
    pub(crate) group: String,
    pub(crate) source: String,
    pub(crate) prefetch: usize,
    pub(crate) in_flight: InFlight,
    pub(crate) deliveries: PrefetchSender<PrefetchedDelivery>,
    pub(crate) commands: mpsc::UnboundedReceiver<ReaderCommand>,
    /// For receipts; weak, because the reader ends when no other sender is left.
    pub(crate) command_sender: mpsc::WeakUnboundedSender<ReaderCommand>,
    pub(crate) stopped: Option<oneshot::Sender<()>>,
    /// Number of the present link; deliveries of another link cannot be settled on it.
    pub(crate) link_number: Arc<AtomicU64>,
    pub(crate) lock_duration: Arc<Mutex<Duration>>,
    /// Commands to handle when there is a connection again; at most one for each delivery in flight.
    pub(crate) waiting: Vec<ReaderCommand>,
}

/// End of a link.
enum LinkEnd {
    /// The consumer and all of its deliveries are gone.
    Done,
    /// The link or its connection was lost.
    Lost(Error),
}

impl Reader {
    fn settings(&self) -> &Arc<Settings> {
        &self.context.settings
    }

    /// Runs until the consumer and its deliveries are gone.
    pub(crate) async fn run(mut self, first: ReceiverLink) {
        let mut present = Some(first);
        loop {
            let link = match present.take() {
                Some(link) => Ok(link),
                None => ReceiverLink::attach(&self).await,
            };
            let end = match link {
                Ok(mut link) => {
                    let end = self.serve_link(&mut link).await;
                    if matches!(end, LinkEnd::Done) {
                        link.close().await;
                    }
                    end
                }
                Err(error) => LinkEnd::Lost(error),
            };
            match end {
                LinkEnd::Done => return,
                LinkEnd::Lost(error) => {
                    self.fail_waiting();
                    // Deliveries of the lost link that `receive` did not return are delivered again.
                    self.link_number.fetch_add(1, Ordering::Relaxed);
                    let now = self.settings().clock.now();
                    let (returned, duration) =
                        (self.in_flight.retain_returned(), self.lock_duration());
                    let losses = &self.settings().losses;
                    losses.of(&self.source, |loss| loss.record(returned, duration, now));
                    self.deliveries.send_error(error);
                    if self.wait_for_resume().await.is_break() {
                        return;
                    }
                }
            }
        }
    }

    /// Fails the commands that wait for a connection.
    fn fail_waiting(&mut self) {
        for command in self.waiting.drain(..) {
            match command {
                ReaderCommand::Flush(flushed) => drop(flushed.send(())),
                ReaderCommand::Settle(settlement) => {
                    self.in_flight.remove(settlement.number());
                    settler::fail(settlement);
                }
            }
        }
    }

    /// Waits until the consumer asks again, or until there is a delivery to settle.
    async fn wait_for_resume(&mut self) -> ControlFlow<()> {
        loop {
            tokio::select! {
                command = self.commands.recv() => match command {
                    None => return ControlFlow::Break(()),
                    // The result of a dropped delivery is not awaited; it is delivered again when its lock
                    // expires.
                    Some(ReaderCommand::Settle(settlement)) if settlement.result_sender.is_none() => {
                        self.in_flight.remove(settlement.number());
                    }
                    Some(command) => {
                        self.waiting.push(command);
                        return ControlFlow::Continue(());
                    }
                },
                () = self.deliveries.resumed() => return ControlFlow::Continue(()),
                () = self.deliveries.stopped() => return ControlFlow::Break(()),
            }
        }
    }

    async fn serve_link(&mut self, link: &mut ReceiverLink) -> LinkEnd {
        let mut commands = Vec::with_capacity(COMMANDS_MAX);
        let mut is_stopping = false;
        if !self.waiting.is_empty()
            && let Err(error) = settler::settle_all(link, &self.in_flight, &mut self.waiting).await
        {
            return LinkEnd::Lost(error);
        }
        loop {
            if !is_stopping && let Err(error) = self.grant_credit(&mut link.receiver).await {
                return LinkEnd::Lost(error);
            }
            tokio::select! {
                biased;
                count = self.commands.recv_many(&mut commands, COMMANDS_MAX) => {
                    if count == 0 {
                        return LinkEnd::Done;
                    }
                    if let Err(error) = settler::settle_all(link, &self.in_flight, &mut commands).await {
                        return LinkEnd::Lost(error);
                    }
                }
                () = self.deliveries.stopped(), if !is_stopping => {
                    is_stopping = true;
                    Box::pin(self.drain(link)).await;
                }
                received = link.receiver.recv::<Body<Value>>() => {
                    if let Err(error) = self.handle_received(link, received).await {
                        return LinkEnd::Lost(error);
                    }
                }
            }
        }
    }

    /// Grants the broker credit for as many deliveries as the prefetch allows.
    async fn grant_credit(&self, receiver: &mut Receiver) -> Result<()> {
        let credit = usize::try_from(receiver.credit()).unwrap_or(usize::MAX);
        let free = self.prefetch.saturating_sub(self.in_flight.len());
        let missing = free.saturating_sub(credit);
        if missing == 0 || (credit > 0 && missing < (self.prefetch / 4).max(1)) {
            return Ok(());
        }
        let free = u32::try_from(free).unwrap_or(u32::MAX);
        let context = self.settings().error_context(&self.source);
        let granting =
            async { receiver.set_credit(free).await.map_err(|error| context.map_error(error)) };
        self.settings().within_timeout(granting).await
    }

    fn lock_duration(&self) -> Duration {
        *self.lock_duration.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn handle_received(
        &mut self,
        link: &ReceiverLink,
        received: std::result::Result<fe2o3_amqp::Delivery<Body<Value>>, RecvError>,
    ) -> Result<()> {
        let now = self.settings().clock.now();
        let source = (&self.topic, self.source.as_str());
        let (info, decoded) = match received {
            Ok(delivery) => {
                let (info, message) = delivery.into_parts();
                let decoded = wire::decode(message, info.delivery_tag(), source, now);
                (info, decoded)
            }
            Err(RecvError::MessageDecode(error)) => {
                let why = error.source.to_string();
                let decoded = wire::undecodable(&why, error.info.delivery_tag(), source, now);
                (error.info, decoded)
            }
            Err(error) => return Err(self.settings().error_context(&self.source).map_error(error)),
        };
        self.in_flight.insert((link.number, info.delivery_id()), &decoded, now);
        if let Some(until) = decoded.locked_until {
            let duration = clock::between(now, until);
            *self.lock_duration.lock().unwrap_or_else(PoisonError::into_inner) = duration;
        }
        let losses = &self.settings().losses;
        let is_uncounted = losses.of(&self.source, |loss| loss.is_uncounted(&decoded, now));
        self.deliver(link, info, decoded, is_uncounted).await
    }

    /// Passes a delivery to the consumer; completes one that is for another group.
    async fn deliver(
        &self,
        link: &ReceiverLink,
        info: DeliveryInfo,
        decoded: DecodedDelivery,
        is_uncounted: bool,
    ) -> Result<()> {
        let is_ours = self.context.group.is_none() || decoded.received.is_for(&self.group);
        let Some(commands) = self.command_sender.upgrade().filter(|_| is_ours) else {
            let disposition = if is_ours { Disposition::Release } else { Disposition::Complete };
            let settlement = Settlement {
                info,
                link_number: link.number,
                lock: decoded.lock,
                disposition,
                result_sender: None,
            };
            return Box::pin(settler::settle_one(link, &self.in_flight, settlement)).await;
        };
        let DecodedDelivery { received, deliveries, lock, .. } = decoded;
        let counted = deliveries.saturating_sub(u32::from(is_uncounted));
        let attempt = received.attempt.saturating_add(counted).saturating_add(1);
        let receipt = ServiceBusReceipt {
            context: self.context.clone(),
            commands,
            info,
            link_number: link.number,
            lock,
            message: Arc::new(received.message),
            attempt,
            deliveries,
            is_uncounted,
            is_returned: false,
            is_settled: false,
        };
        // Without a consumer the receipt is dropped here, which releases the delivery.
        self.deliveries.send(vec![PrefetchedDelivery { poison: received.poison, receipt }]);
        Ok(())
    }

    /// Stops the broker from sending, and releases what it had sent already.
    async fn drain(&mut self, link: &mut ReceiverLink) {
        let clock = self.settings().clock.clone();
        let is_draining = link.receiver.drain().await.is_ok();
        for _ in 0..self.prefetch {
            if !is_draining {
                break;
            }
            let until = clock::add(clock.now(), DRAIN_SILENCE);
            let coming = link.receiver.recv::<Body<Value>>();
            match clock::within(&*clock, until, coming).await {
                Some(Ok(delivery)) => {
                    let (info, _) = delivery.into_parts();
                    // It was not added to the in-flight deliveries, so there is nothing to remove.
                    let _ = link.receiver.release(info).await;
                }
                Some(Err(_)) | None => break,
            }
        }
        if let Some(stopped) = self.stopped.take() {
            // Closing the consumer may have timed out.
            let _ = stopped.send(());
        }
    }
}
