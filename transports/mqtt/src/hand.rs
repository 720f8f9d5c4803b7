//! What a consumer has in hand: which messages of its session are out, and how each is settled. The broker
//! knows them by number for as long as the session lives, across connections. When the session is gone, or
//! the broker counts anew after a restart, so are the numbers, and nobody is to acknowledge somebody else's
//! message by an old one: a number is only believed together with what came under it.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use punctual::jiff::Timestamp;
use punctual::model::{Message, MessageId, Topic};
use punctual::{Error, Result};
use tokio::sync::mpsc;

use crate::codec::{Publish, Version};
use crate::fault::Trouble;
use crate::link::Link;
use crate::names::Names;
use crate::wire::{Parcel, read};

/// How many acknowledgements are remembered, in case a breaking connection takes them along.
const ACKED_MAX: usize = 1_024;
/// The most messages in hand that nobody confirms: nothing else keeps their sender from sending more.
const UNCONFIRMED_MAX: usize = 10_000;

/// What a consumer and its receipts share.
pub(crate) struct Hand {
    pub(crate) names: Names,
    pub(crate) topic: Topic,
    pub(crate) group: String,
    pub(crate) client: String,
    pub(crate) version: Version,
    /// Host and port, for people.
    pub(crate) place: String,
    give: mpsc::UnboundedSender<Result<Taken>>,
    is_told: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    link: Option<Arc<Link>>,
    /// Counts messages, to tell apart those that bring no identity or have the same number in turn.
    count: u64,
    held: HashMap<u16, Holding>,
    /// The last that were acknowledged: nobody confirms that the broker has heard it.
    acked: VecDeque<(u16, MessageId)>,
    /// Messages in hand that need no acknowledgement.
    unconfirmed: usize,
}

/// A message that the broker waits to hear of.
struct Holding {
    count: u64,
    /// Whether it was settled while there was no connection; the broker hears of it when it sends it
    /// again.
    is_settled: bool,
    /// As it came, to know it again: a broker that was restarted may give its number to another.
    publish: Publish,
}

impl Holding {
    fn is(&self, publish: &Publish) -> bool {
        let held = &self.publish;
        publish.again
            && (&held.topic, &held.payload) == (&publish.topic, &publish.payload)
            && held.properties == publish.properties
    }
}

/// Which message it is; its number is zero when it needs no acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    count: u64,
    id: u16,
}

/// A message that is in hand.
pub(crate) struct Taken {
    pub(crate) spot: Spot,
    pub(crate) message: Arc<Message>,
    pub(crate) attempt: u32,
    pub(crate) poison: Option<String>,
}

/// Whom a hand belongs to.
pub(crate) struct Owner {
    pub(crate) names: Names,
    pub(crate) topic: Topic,
    pub(crate) group: String,
    pub(crate) client: String,
    pub(crate) version: Version,
    pub(crate) place: String,
}

impl Hand {
    pub(crate) fn new(owner: Owner, give: mpsc::UnboundedSender<Result<Taken>>) -> Self {
        let Owner { names, topic, group, client, version, place } = owner;
        let (is_told, inner) = (AtomicBool::new(false), Mutex::default());
        Self { names, topic, group, client, version, place, give, is_told, inner }
    }

    /// A connection is there; whether the broker still had the session.
    pub(crate) fn connected(&self, link: Arc<Link>) {
        let mut inner = self.inner();
        if !link.welcome.session_present {
            inner.held.clear();
            inner.acked.clear();
        }
        inner.link = Some(link);
    }

    /// The connection is gone.
    pub(crate) fn disconnected(&self) {
        self.inner().link = None;
    }

    /// A message has come: hands it on, unless it is in hand already, settled already, or not for us.
    pub(crate) fn take(&self, publish: Publish, now: Timestamp) {
        let Some(spot) = self.inner().spot(&publish) else { return };
        let place = format_args!("{}/{}", self.client, spot.count);
        let received = read(&publish, &self.topic, place, now);
        let message = Arc::new(received.message);
        let is_known = publish.again && self.inner().acked.contains(&(spot.id, message.id));
        let is_ours = received.group.as_deref().is_none_or(|only| only == self.group);
        if spot.id > 0 {
            let holding = Holding { count: spot.count, is_settled: false, publish };
            self.inner().held.insert(spot.id, holding);
        }
        if is_known || !is_ours {
            return self.settle(spot, message.id);
        }
        let attempt = received.attempt.saturating_add(1);
        self.give(Taken { spot, message, attempt, poison: received.poison });
    }

    /// Hands a message on, for the first time or again. A consumer that is gone leaves it to its session.
    pub(crate) fn give(&self, taken: Taken) {
        let _ = self.give.send(Ok(taken));
    }

    /// Tells the consumer that something went wrong.
    pub(crate) fn tell(&self, trouble: &Trouble) {
        // One is enough until it is heard.
        if !self.is_told.swap(true, Ordering::Relaxed) {
            let _ = self.give.send(Err(trouble.told(&self.place).during("receive")));
        }
    }

    /// The consumer has heard of it.
    pub(crate) fn heard(&self) {
        self.is_told.store(false, Ordering::Relaxed);
    }

    /// Done with a message.
    pub(crate) fn settle(&self, spot: Spot, message: MessageId) {
        let mut inner = self.inner();
        if spot.id == 0 {
            inner.unconfirmed = inner.unconfirmed.saturating_sub(1);
        } else if inner.held.get(&spot.id).is_some_and(|held| held.count == spot.count) {
            inner.acknowledge(spot.id);
            if inner.acked.len() == ACKED_MAX {
                inner.acked.pop_front();
            }
            inner.acked.push_back((spot.id, message));
        }
    }

    /// Publishes on the consumer's own connection; answers whether somebody had subscribed to it, as far
    /// as the broker tells.
    pub(crate) async fn publish(&self, parcel: Parcel) -> Result<bool> {
        let link = self.inner().link.clone();
        let Some(link) = link else {
            return Err(Error::unavailable(format!(
                "there is no connection to the MQTT broker at {}; the delivery comes again",
                self.place
            )));
        };
        let unmatched = link.publish(&[parcel]).await;
        unmatched.map(|count| count == 0).map_err(|trouble| trouble.told(&self.place))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// The place of a message that has come; none when there is nothing to hand on.
    fn spot(&mut self, publish: &Publish) -> Option<Spot> {
        let id = publish.id;
        if let Some(held) = self.held.get(&id).filter(|held| held.is(publish)) {
            if held.is_settled {
                self.acknowledge(id);
            }
            return None;
        }
        if id == 0 {
            if self.unconfirmed == UNCONFIRMED_MAX {
                tracing::warn!("a message sent without confirmation is lost: too many wait");
                return None;
            }
            self.unconfirmed += 1;
        }
        self.count += 1;
        Some(Spot { count: self.count, id })
    }

    fn acknowledge(&mut self, id: u16) {
        let is_heard = self.link.as_ref().is_some_and(|link| link.ack(id));
        if is_heard {
            self.held.remove(&id);
        } else if let Some(held) = self.held.get_mut(&id) {
            held.is_settled = true;
        }
    }
}
