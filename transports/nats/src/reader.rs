//! Reader: one task for each consumer that requests deliveries from the broker, passes them on, and recovers after the
//! connection or the consumer on the broker was lost.
//!
//! It requests no more than fits, so the prefetch covers waiting and running deliveries. It ends when the consumer is
//! gone and everything is settled.

use std::sync::Arc;
use std::time::Duration;

use async_nats::{Message, StatusCode};
use punctual::backend::transport::back_off::BackOff;
use punctual::backend::transport::renewal::{RENEWALS_PER_TIMEOUT, VisibilityRenewal};
use punctual::clock::{add, within};
use punctual::jiff::Timestamp;
use punctual::{Error, ErrorKind};
use tokio::sync::{mpsc, watch};

use crate::connection::Connection;
use crate::error;
use crate::in_flight::{InFlight, InFlightDelivery};
use crate::inbox::{Inbox, REQUEST_EXPIRY};
use crate::renewal::VisibilityRenewer;
use crate::topology::{GroupConsumer, Topology};

/// Limit of the deliveries received before other events are handled.
const RECEIVE_MAX: usize = 256;
/// Delay between two attempts to recover.
const RECOVERY_DELAY_MIN: Duration = Duration::from_millis(250);
const RECOVERY_DELAY_MAX: Duration = Duration::from_secs(10);
/// Rounds without a message from the broker after which a request counts as lost.
const SILENT_ROUNDS_MAX: u32 = 2;

/// A received message and its in-flight delivery.
pub(crate) type RawDelivery = (Message, InFlightDelivery);

/// An error of the reader, returned by `receive` until it has recovered.
#[derive(Clone, Debug)]
pub(crate) struct ReaderError {
    kind: ErrorKind,
    text: Arc<str>,
}

impl ReaderError {
    pub(crate) fn to_error(&self) -> Error {
        Error::new(self.kind, &*self.text)
    }
}

/// Channels to the consumer: deliveries and the current error.
pub(crate) struct ReaderOutput {
    pub(crate) deliveries: mpsc::Sender<RawDelivery>,
    pub(crate) error: watch::Sender<Option<ReaderError>>,
}

/// Reads for one consumer.
pub(crate) struct Reader {
    topology: Arc<Topology>,
    connection: Arc<Connection>,
    topic: String,
    group: String,
    consumer: GroupConsumer,
    in_flight: Arc<InFlight>,
    output: ReaderOutput,
    inbox: Inbox,
    silent_rounds: u32,
    /// Length of a round, in which the broker is silent or not.
    round: Duration,
    round_at: Timestamp,
    recover_at: Option<Timestamp>,
    /// When deliveries requested before closing count as lost.
    give_up_at: Option<Timestamp>,
    back_off: BackOff,
    _renewal: VisibilityRenewal,
}

impl Reader {
    pub(crate) fn new(
        topology: &Arc<Topology>,
        (topic, group): (String, String),
        consumer: GroupConsumer,
        in_flight: Arc<InFlight>,
        output: ReaderOutput,
    ) -> Self {
        let connection = Arc::clone(&topology.connection);
        let round = topology.settings.visibility_timeout / RENEWALS_PER_TIMEOUT;
        let round_at = add(connection.clock.now(), round);
        let (clock, renewer) =
            (Arc::clone(&connection.clock), VisibilityRenewer(Arc::clone(&connection)));
        let renewal = VisibilityRenewal::start(&in_flight.replies, clock, round, renewer);
        let inbox = Inbox::new(Arc::clone(&connection));
        Self {
            topology: Arc::clone(topology),
            connection,
            topic,
            group,
            consumer,
            in_flight,
            output,
            inbox,
            silent_rounds: 0,
            round,
            round_at,
            recover_at: None,
            give_up_at: None,
            back_off: BackOff::new(RECOVERY_DELAY_MIN, RECOVERY_DELAY_MAX),
            _renewal: renewal,
        }
    }

    /// Runs until the consumer is closed or dropped and everything is settled.
    pub(crate) async fn run(mut self) {
        let clock = Arc::clone(&self.connection.clock);
        let mut connected = self.connection.connected();
        let mut timer_at = self.wake_at();
        let mut timer = clock.sleep_until(timer_at);
        loop {
            // Open requests must run out before deliveries are returned; else the broker would send them here again.
            let is_closing = self.in_flight.is_closing();
            if is_closing && self.in_flight.has_open_requests() {
                self.set_give_up_deadline();
            } else {
                self.send_unsent().await;
            }
            if self.in_flight.is_finished() {
                break;
            }
            if !is_closing {
                self.request().await;
            }
            if timer_at != self.wake_at() {
                timer_at = self.wake_at();
                timer = clock.sleep_until(timer_at);
            }
            tokio::select! {
                biased;
                changed = connected.changed() => {
                    if changed.is_err() {
                        break;
                    }
                    self.handle_connection_change();
                }
                message = self.inbox.next() => self.receive(message),
                () = self.in_flight.notified() => {}
                () = &mut timer => {
                    self.handle_timer().await;
                    timer_at = Timestamp::MIN;
                }
            }
        }
        // The last acknowledgements must be sent before the connection may be closed.
        let until = add(clock.now(), self.connection.timeout);
        let _ = within(&*clock, until, self.connection.client.flush()).await;
    }

    fn wake_at(&self) -> Timestamp {
        let others = [self.recover_at, self.give_up_at].into_iter().flatten();
        others.fold(self.round_at, Timestamp::min)
    }

    fn is_connected(&self) -> bool {
        *self.connection.connected.borrow()
    }

    /// Sends acknowledgements caused in `drop`. If one fails, the broker delivers the message again after `ack_wait`.
    async fn send_unsent(&self) {
        for (subject, payload) in self.in_flight.unsent() {
            if self.connection.publish(subject, payload).await.is_err() {
                break;
            }
        }
    }

    /// Requests as many deliveries as fit, while a `receive` call waits: deliveries to a busy or closing process
    /// would only wait here while another consumer could handle them.
    async fn request(&mut self) {
        if self.recover_at.is_some() || !self.is_connected() {
            return;
        }
        let Some(count) = self.in_flight.reserve_request() else { return };
        if let Err(error) = self.inbox.request(&self.consumer, count).await {
            self.fail(&error);
        }
    }

    /// Sets the deadline for the broker to end an open request.
    fn set_give_up_deadline(&mut self) {
        if self.give_up_at.is_none() {
            let wait = REQUEST_EXPIRY + self.connection.timeout;
            self.give_up_at = Some(add(self.connection.clock.now(), wait));
        }
    }

    /// Receives the messages that have arrived.
    fn receive(&mut self, first: Option<Message>) {
        self.silent_rounds = 0;
        let Some(first) = first else {
            self.inbox.close();
            return self.in_flight.request_ended(None);
        };
        self.receive_one(first);
        for _ in 0..RECEIVE_MAX {
            let Some(message) = self.inbox.ready() else { return };
            self.receive_one(message);
        }
    }

    fn receive_one(&mut self, mut message: Message) {
        match message.status {
            None | Some(StatusCode::OK) => {
                if let Some(reply) = message.reply.take() {
                    self.back_off.reset();
                    let renew_at = add(self.connection.clock.now(), self.round);
                    let delivery = self.in_flight.add(reply, renew_at);
                    // There is no room only if the broker sends more than requested; the surplus is dropped, which
                    // returns it.
                    let _ = self.output.deliveries.try_send((message, delivery));
                }
            }
            Some(StatusCode::TIMEOUT | StatusCode::NOT_FOUND) => {
                self.back_off.reset();
                let headers = message.headers.as_ref();
                let missing = headers.and_then(|headers| headers.get("Nats-Pending-Messages"));
                self.in_flight.request_ended(missing.and_then(|count| count.as_str().parse().ok()));
            }
            Some(status) => {
                let reason = message.description.unwrap_or_else(|| status.to_string());
                let GroupConsumer { stream, name } = &self.consumer;
                self.fail(&Error::unavailable(format!(
                    "NATS at {} sends nothing from the consumer {name:?} of the stream {stream:?}: {reason}",
                    self.connection.servers
                )));
            }
        }
    }

    fn handle_connection_change(&mut self) {
        self.silent_rounds = 0;
        self.in_flight.request_ended(None);
        // Messages that have arrived already count. The new connection gets another inbox, because the broker may
        // still serve requests of the old one.
        while let Some(message) = self.inbox.ready() {
            self.receive_one(message);
        }
        self.inbox.close();
        self.back_off.reset();
        if self.is_connected() {
            self.recover_at = Some(self.connection.clock.now());
        } else {
            self.recover_at = None;
            self.report_error(&error::connection_lost(&self.connection.servers));
        }
    }

    async fn handle_timer(&mut self) {
        let now = self.connection.clock.now();
        if self.recover_at.is_some_and(|at| at <= now) {
            self.recover().await;
        }
        if self.give_up_at.is_some_and(|at| at <= now) {
            self.give_up_at = None;
            self.in_flight.request_ended(None);
        }
        if self.round_at <= now {
            self.check_silence();
            self.round_at = add(self.connection.clock.now(), self.round);
        }
    }

    /// Ensures that the consumer exists, and resumes requests.
    async fn recover(&mut self) {
        self.recover_at = None;
        if !self.is_connected() || self.in_flight.is_closing() {
            return;
        }
        match self.topology.group(&self.topic, &self.group).await {
            Ok(consumer) => {
                self.consumer = consumer;
                self.output.error.send_replace(None);
            }
            Err(error) => self.fail(&error),
        }
    }

    /// Detects when the broker has lost a request.
    fn check_silence(&mut self) {
        if !self.is_connected() {
            return;
        }
        self.silent_rounds += 1;
        if self.silent_rounds > SILENT_ROUNDS_MAX && self.in_flight.has_open_requests() {
            self.inbox.close();
            self.fail(&error::timed_out(&self.connection.servers));
        }
    }

    /// Reports an error and schedules the recovery.
    fn fail(&mut self, error: &Error) {
        self.in_flight.request_ended(None);
        self.silent_rounds = 0;
        let wait = self.back_off.next_wait();
        self.recover_at = Some(add(self.connection.clock.now(), wait));
        self.report_error(error);
    }

    fn report_error(&self, error: &Error) {
        let error = ReaderError { kind: error.kind(), text: Arc::from(error.to_string()) };
        self.output.error.send_replace(Some(error));
    }
}
