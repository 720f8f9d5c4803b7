//! The pump: one task for each consumer that asks the broker for deliveries, hands them over, extends what
//! is held, and finds its way back after the connection or the consumer on the broker was lost.
//!
//! It asks for no more than there is room for, so the prefetch holds over what waits here and what is being
//! handled. It ends by itself when the consumer is gone and everything is settled.

use std::sync::Arc;
use std::time::Duration;

use async_nats::{Message, StatusCode};
use bytes::Bytes;
use punctual::clock::{add, within};
use punctual::jiff::Timestamp;
use punctual::{Error, ErrorKind};
use tokio::sync::{mpsc, watch};

use crate::fault;
use crate::held::{Held, Hold};
use crate::inbox::{Inbox, REQUEST_LENGTH};
use crate::link::Link;
use crate::topology::{GroupConsumer, Topology};

/// It is still being worked on.
const IN_PROGRESS: Bytes = Bytes::from_static(b"+WPI");
/// Deliveries taken in before anything else is looked at.
const TAKEN_MAX: usize = 256;
/// Between two attempts to mend what is broken.
const MEND_MIN: Duration = Duration::from_millis(250);
const MEND_MAX: Duration = Duration::from_secs(10);
/// Rounds without a word from the broker after which a request counts as lost.
const SILENT_ROUNDS_MAX: u32 = 2;

/// A delivery as it came, with the hold on it.
pub(crate) type Raw = (Message, Hold);

/// What keeps deliveries from coming.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    kind: ErrorKind,
    sentence: Arc<str>,
}

impl Trouble {
    pub(crate) fn error(&self) -> Error {
        Error::new(self.kind, &*self.sentence)
    }
}

/// Where deliveries go, and what keeps them from coming.
pub(crate) struct Outlet {
    pub(crate) deliveries: mpsc::Sender<Raw>,
    pub(crate) trouble: watch::Sender<Option<Trouble>>,
}

/// What the pump works on.
pub(crate) struct Pump {
    topology: Arc<Topology>,
    link: Arc<Link>,
    topic: String,
    group: String,
    consumer: GroupConsumer,
    held: Arc<Held>,
    outlet: Outlet,
    inbox: Inbox,
    silent_rounds: u32,
    round_at: Timestamp,
    mend_at: Option<Timestamp>,
    /// When what was asked for before closing counts as lost.
    give_up_at: Option<Timestamp>,
    mend_after: Duration,
}

impl Pump {
    pub(crate) fn new(
        topology: &Arc<Topology>,
        (topic, group): (String, String),
        consumer: GroupConsumer,
        held: Arc<Held>,
        outlet: Outlet,
    ) -> Self {
        let link = Arc::clone(&topology.link);
        let round_at = add(link.clock.now(), topology.wanted.ack_wait / 3);
        let inbox = Inbox::new(Arc::clone(&link));
        Self {
            topology: Arc::clone(topology),
            link,
            topic,
            group,
            consumer,
            held,
            outlet,
            inbox,
            silent_rounds: 0,
            round_at,
            mend_at: None,
            give_up_at: None,
            mend_after: MEND_MIN,
        }
    }

    /// Runs until the consumer is closed or dropped and everything is settled.
    pub(crate) async fn run(mut self) {
        let clock = Arc::clone(&self.link.clock);
        let mut connected = self.link.connected();
        let mut armed = self.wake_at();
        let mut timer = clock.sleep_until(armed);
        loop {
            // First what was asked for runs out, then what is here goes back; else it would come right here
            // again.
            let is_closing = self.held.is_closing();
            if is_closing && self.held.is_waiting() {
                self.look_at_the_end();
            } else {
                self.send_unsent().await;
            }
            if self.held.is_over() {
                break;
            }
            if !is_closing {
                self.request().await;
            }
            if armed != self.wake_at() {
                armed = self.wake_at();
                timer = clock.sleep_until(armed);
            }
            tokio::select! {
                biased;
                changed = connected.changed() => {
                    if changed.is_err() {
                        break;
                    }
                    self.connection_changed();
                }
                message = self.inbox.next() => self.take_in(message),
                () = self.held.rung() => {}
                () = &mut timer => {
                    self.on_time().await;
                    armed = Timestamp::MIN;
                }
            }
        }
        // What was acknowledged last must be out before the connection may go.
        let until = add(clock.now(), self.link.patience);
        let _ = within(&*clock, until, self.link.client.flush()).await;
    }

    fn wake_at(&self) -> Timestamp {
        let others = [self.mend_at, self.give_up_at].into_iter().flatten();
        others.fold(self.round_at, Timestamp::min)
    }

    fn is_connected(&self) -> bool {
        *self.link.connected.borrow()
    }

    /// Sends what those who caused it could not wait for. What fails here is delivered again by the broker
    /// when its patience ends.
    async fn send_unsent(&self) {
        for (subject, payload) in self.held.unsent() {
            if self.link.post(subject, payload).await.is_err() {
                break;
            }
        }
    }

    /// Asks the broker for as many deliveries as there is room for, while somebody waits for them: what comes
    /// to a process that is busy, or about to end, would only lie there while others could handle it.
    async fn request(&mut self) {
        if self.mend_at.is_some() || !self.is_connected() {
            return;
        }
        let Some(count) = self.held.ask() else { return };
        if let Err(error) = self.inbox.request(&self.consumer, count).await {
            self.fail(&error);
        }
    }

    /// Waits no longer for the broker to end a request than it may take.
    fn look_at_the_end(&mut self) {
        if self.give_up_at.is_none() {
            let wait = REQUEST_LENGTH + self.link.patience;
            self.give_up_at = Some(add(self.link.clock.now(), wait));
        }
    }

    /// Takes in what has arrived.
    fn take_in(&mut self, first: Option<Message>) {
        self.silent_rounds = 0;
        let Some(first) = first else {
            self.inbox.forget();
            return self.held.missed(None);
        };
        self.take_one(first);
        for _ in 0..TAKEN_MAX {
            let Some(message) = self.inbox.ready() else { return };
            self.take_one(message);
        }
    }

    fn take_one(&mut self, mut message: Message) {
        match message.status {
            None | Some(StatusCode::OK) => {
                if let Some(reply) = message.reply.take() {
                    self.mend_after = MEND_MIN;
                    let hold = self.held.take(reply);
                    // No room is only possible when the broker sends more than it was asked for; what does
                    // not fit is dropped, which gives it back.
                    let _ = self.outlet.deliveries.try_send((message, hold));
                }
            }
            Some(StatusCode::TIMEOUT | StatusCode::NOT_FOUND) => {
                self.mend_after = MEND_MIN;
                let headers = message.headers.as_ref();
                let left = headers.and_then(|headers| headers.get("Nats-Pending-Messages"));
                self.held.missed(left.and_then(|left| left.as_str().parse().ok()));
            }
            Some(status) => {
                let told = message.description.unwrap_or_else(|| status.to_string());
                let GroupConsumer { stream, name } = &self.consumer;
                self.fail(&Error::unavailable(format!(
                    "NATS at {} gives nothing from the consumer {name:?} of the stream {stream:?}: {told}",
                    self.link.place
                )));
            }
        }
    }

    fn connection_changed(&mut self) {
        self.silent_rounds = 0;
        self.held.missed(None);
        // What has arrived already counts; on the new connection there is another inbox, because the
        // broker may remember requests of the old one.
        while let Some(message) = self.inbox.ready() {
            self.take_one(message);
        }
        self.inbox.forget();
        self.mend_after = MEND_MIN;
        if self.is_connected() {
            self.mend_at = Some(self.link.clock.now());
        } else {
            self.mend_at = None;
            self.tell(&fault::lost(&self.link.place));
        }
    }

    async fn on_time(&mut self) {
        let now = self.link.clock.now();
        if self.mend_at.is_some_and(|at| at <= now) {
            self.mend().await;
        }
        if self.give_up_at.is_some_and(|at| at <= now) {
            self.give_up_at = None;
            self.held.missed(None);
        }
        if self.round_at <= now {
            self.extend().await;
            self.round_at = add(self.link.clock.now(), self.topology.wanted.ack_wait / 3);
        }
    }

    /// Makes sure that there is a consumer to ask, and asks again from now on.
    async fn mend(&mut self) {
        self.mend_at = None;
        if !self.is_connected() || self.held.is_closing() {
            return;
        }
        match self.topology.group(&self.topic, &self.group).await {
            Ok(consumer) => {
                self.consumer = consumer;
                self.outlet.trouble.send_replace(None);
            }
            Err(error) => self.fail(&error),
        }
    }

    /// Extends what is held, and notices when the broker has forgotten what it was asked.
    async fn extend(&mut self) {
        if !self.is_connected() {
            return;
        }
        let mut round = self.held.begin_round();
        for reply in round.replies.drain(..) {
            if self.link.post(reply, IN_PROGRESS).await.is_err() {
                break;
            }
        }
        drop(round);
        self.silent_rounds += 1;
        if self.silent_rounds > SILENT_ROUNDS_MAX && self.held.is_waiting() {
            self.inbox.forget();
            self.fail(&fault::silent(&self.link.place));
        }
    }

    /// Nothing comes for this reason; it is mended after a while.
    fn fail(&mut self, error: &Error) {
        self.held.missed(None);
        self.silent_rounds = 0;
        self.mend_at = Some(add(self.link.clock.now(), self.mend_after));
        self.mend_after = (self.mend_after * 2).min(MEND_MAX);
        self.tell(error);
    }

    fn tell(&self, error: &Error) {
        let trouble = Trouble { kind: error.kind(), sentence: Arc::from(error.to_string()) };
        self.outlet.trouble.send_replace(Some(trouble));
    }
}
