//! The task behind a consumer: takes deliveries as far as there is room, settles what it is told to, and
//! makes the connection again when it is lost. It ends when the consumer is gone and nothing of it is in
//! anybody's hand.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fe2o3_amqp::Receiver;
use fe2o3_amqp::link::RecvError;
use fe2o3_amqp::link::delivery::DeliveryInfo;
use fe2o3_amqp::types::messaging::Body;
use fe2o3_amqp::types::primitives::Value;
use punctual::clock;
use punctual::model::Topic;
use punctual::{Error, Result};
use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::attached::Attached;
use crate::hold::Holds;
use crate::line::Settings;
use crate::receipt::{Call, Desk, Fate, Request, ServiceBusReceipt};
use crate::settle;
use crate::wire::{self, Read};

/// The most calls that are answered together.
const CALLS_MAX: usize = 256;
/// Nothing more comes when nothing has come for so long after the broker was told to stop.
const QUIET: Duration = Duration::from_millis(100);

/// A delivery that was taken and not yet given to anybody.
pub(crate) struct Taken {
    pub(crate) poison: Option<String>,
    pub(crate) receipt: ServiceBusReceipt,
}

/// Feeds one consumer.
pub(crate) struct Reader {
    pub(crate) desk: Arc<Desk>,
    pub(crate) topic: Topic,
    pub(crate) group: String,
    pub(crate) source: String,
    pub(crate) prefetch: usize,
    pub(crate) holds: Arc<Holds>,
    pub(crate) taken: mpsc::UnboundedSender<Result<Taken>>,
    pub(crate) calls: mpsc::UnboundedReceiver<Call>,
    /// For receipts; weak, because the reader ends when nobody else can call it.
    pub(crate) caller: mpsc::WeakUnboundedSender<Call>,
    pub(crate) asked: Arc<Notify>,
    pub(crate) stop: watch::Receiver<bool>,
    pub(crate) stopped: Option<oneshot::Sender<()>>,
    /// The number of the present link; what came by another cannot be settled.
    pub(crate) link: Arc<AtomicU64>,
    pub(crate) lock_length: Arc<Mutex<Duration>>,
    /// What is to be settled when there is a connection again; no more than is in hand.
    pub(crate) waiting: Vec<Call>,
}

/// How a link ended.
enum Ended {
    /// Nobody needs it any more.
    Done,
    Lost(Error),
}

impl Reader {
    fn settings(&self) -> &Arc<Settings> {
        &self.desk.settings
    }

    /// Goes on until nobody needs it.
    pub(crate) async fn run(mut self, first: Attached) {
        let mut present = Some(first);
        loop {
            let attached = match present.take() {
                Some(attached) => Ok(attached),
                None => Attached::of(&self).await,
            };
            let ended = match attached {
                Ok(mut attached) => {
                    let ended = self.serve(&mut attached).await;
                    if matches!(ended, Ended::Done) {
                        attached.end().await;
                    }
                    ended
                }
                Err(error) => Ended::Lost(error),
            };
            match ended {
                Ended::Done => return,
                Ended::Lost(error) => {
                    self.refuse_waiting();
                    // What came by the link that is gone and was not seen comes again.
                    self.link.fetch_add(1, Ordering::Relaxed);
                    let now = self.settings().clock.now();
                    let (seen, length) = (self.holds.keep_seen(), self.lock_length());
                    let losses = &self.settings().losses;
                    losses.of(&self.source, |loss| loss.note(seen, length, now));
                    let _ = self.taken.send(Err(error));
                    if self.rest().await.is_break() {
                        return;
                    }
                }
            }
        }
    }

    /// Says of all that waits for a connection that there is none.
    fn refuse_waiting(&mut self) {
        for call in self.waiting.drain(..) {
            match call {
                Call::Flush(answer) => drop(answer.send(())),
                Call::Settle(request) => {
                    self.holds.let_go(request.number());
                    settle::refuse(request);
                }
            }
        }
    }

    /// Waits until it is asked to try again, or until there is something to settle.
    async fn rest(&mut self) -> ControlFlow<()> {
        loop {
            tokio::select! {
                call = self.calls.recv() => match call {
                    None => return ControlFlow::Break(()),
                    // Nobody waits for what was dropped; it comes again when its lock runs out.
                    Some(Call::Settle(request)) if request.answer.is_none() => {
                        self.holds.let_go(request.number());
                    }
                    Some(call) => {
                        self.waiting.push(call);
                        return ControlFlow::Continue(());
                    }
                },
                () = self.asked.notified() => return ControlFlow::Continue(()),
                () = told_to_stop(&mut self.stop) => return ControlFlow::Break(()),
            }
        }
    }

    async fn serve(&mut self, attached: &mut Attached) -> Ended {
        let mut calls = Vec::with_capacity(CALLS_MAX);
        let mut is_stopping = false;
        if !self.waiting.is_empty()
            && let Err(error) = settle::answer(attached, &self.holds, &mut self.waiting).await
        {
            return Ended::Lost(error);
        }
        loop {
            if !is_stopping && let Err(error) = self.top_up(&mut attached.receiver).await {
                return Ended::Lost(error);
            }
            tokio::select! {
                biased;
                count = self.calls.recv_many(&mut calls, CALLS_MAX) => {
                    if count == 0 {
                        return Ended::Done;
                    }
                    if let Err(error) = settle::answer(attached, &self.holds, &mut calls).await {
                        return Ended::Lost(error);
                    }
                }
                () = told_to_stop(&mut self.stop), if !is_stopping => {
                    is_stopping = true;
                    Box::pin(self.hand_back(attached)).await;
                }
                received = attached.receiver.recv::<Body<Value>>() => {
                    if let Err(error) = self.received(attached, received).await {
                        return Ended::Lost(error);
                    }
                }
            }
        }
    }

    /// Lets the broker send as many as there is room for.
    async fn top_up(&self, receiver: &mut Receiver) -> Result<()> {
        let credit = usize::try_from(receiver.credit()).unwrap_or(usize::MAX);
        let free = self.prefetch.saturating_sub(self.holds.len());
        let missing = free.saturating_sub(credit);
        if missing == 0 || (credit > 0 && missing < (self.prefetch / 4).max(1)) {
            return Ok(());
        }
        let free = u32::try_from(free).unwrap_or(u32::MAX);
        let asked = self.settings().about(&self.source);
        let granting =
            async { receiver.set_credit(free).await.map_err(|error| asked.failed(error)) };
        self.settings().in_time(granting).await
    }

    fn lock_length(&self) -> Duration {
        *self.lock_length.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn received(
        &mut self,
        attached: &Attached,
        received: std::result::Result<fe2o3_amqp::Delivery<Body<Value>>, RecvError>,
    ) -> Result<()> {
        let now = self.settings().clock.now();
        let place = (&self.topic, self.source.as_str());
        let (info, read) = match received {
            Ok(delivery) => {
                let (info, message) = delivery.into_parts();
                let read = wire::read(message, info.delivery_tag(), place, now);
                (info, read)
            }
            Err(RecvError::MessageDecode(error)) => {
                let why = error.source.to_string();
                let read = wire::unreadable(&why, error.info.delivery_tag(), place, now);
                (error.info, read)
            }
            Err(error) => return Err(self.settings().about(&self.source).failed(error)),
        };
        self.holds.take((attached.number, info.delivery_id()), &read, now);
        if let Some(until) = read.locked_until {
            let length = clock::between(now, until);
            *self.lock_length.lock().unwrap_or_else(PoisonError::into_inner) = length;
        }
        let losses = &self.settings().losses;
        let is_forgiven = losses.of(&self.source, |loss| loss.forgives(&read, now));
        self.give(attached, info, read, is_forgiven).await
    }

    /// Gives a delivery to the consumer, or passes over what is for another group.
    async fn give(
        &self,
        attached: &Attached,
        info: DeliveryInfo,
        read: Read,
        is_forgiven: bool,
    ) -> Result<()> {
        let is_ours = self.desk.group.is_none() || read.received.is_for(&self.group);
        let Some(calls) = self.caller.upgrade().filter(|_| is_ours) else {
            let fate = if is_ours { Fate::Release } else { Fate::Complete };
            let request =
                Request { info, link: attached.number, lock: read.lock, fate, answer: None };
            return Box::pin(settle::one(attached, &self.holds, request)).await;
        };
        let Read { received, deliveries, lock, .. } = read;
        let counted = deliveries.saturating_sub(u32::from(is_forgiven));
        let attempt = received.attempt.saturating_add(counted).saturating_add(1);
        let receipt = ServiceBusReceipt {
            desk: self.desk.clone(),
            calls,
            info,
            link: attached.number,
            lock,
            message: Arc::new(received.message),
            attempt,
            deliveries,
            is_forgiven,
            is_given: false,
            is_settled: false,
        };
        // Without a consumer it is dropped here, and so released.
        let _ = self.taken.send(Ok(Taken { poison: received.poison, receipt }));
        Ok(())
    }

    /// Tells the broker to send no more, and gives back what it had sent already.
    async fn hand_back(&mut self, attached: &mut Attached) {
        let clock = self.settings().clock.clone();
        let is_told = attached.receiver.drain().await.is_ok();
        for _ in 0..self.prefetch {
            if !is_told {
                break;
            }
            let until = clock::add(clock.now(), QUIET);
            let coming = attached.receiver.recv::<Body<Value>>();
            match clock::within(&*clock, until, coming).await {
                Some(Ok(delivery)) => {
                    let (info, _) = delivery.into_parts();
                    // It was not taken in hand, so there is nothing to let go.
                    let _ = attached.receiver.release(info).await;
                }
                Some(Err(_)) | None => break,
            }
        }
        if let Some(stopped) = self.stopped.take() {
            // Whoever closes the consumer may have given up.
            let _ = stopped.send(());
        }
    }
}

/// Waits until the consumer is closed, or gone.
async fn told_to_stop(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}
