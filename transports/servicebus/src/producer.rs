//! Publishing: a whole batch is on its way before the first answer is waited for, and it is done when the
//! broker has accepted every message. What cannot be sent is refused before anything is.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fe2o3_amqp::link::delivery::DeliveryFut;
use fe2o3_amqp::link::{ErrorRecovery, LinkStateError, SendError};
use fe2o3_amqp::types::messaging::{Data, Outcome};
use fe2o3_amqp::{Sendable, Sender};
use futures_util::future::join_all;
use punctual::clock;
use punctual::jiff::Timestamp;
use punctual::model::IdSource as _;
use punctual::transport::Outgoing;
use punctual::wire::Wrapping;
use punctual::{Error, Result};
use tokio::sync::Mutex;

use crate::line::{Line, Settings};
use crate::wire::{ATTRIBUTE_PREFIX, written};

/// The most links to send by that are kept open.
const SENDERS_MAX: usize = 512;
/// How soon a lost connection is noticed.
const LOOK_EVERY: Duration = Duration::from_millis(100);

type Answer = DeliveryFut<std::result::Result<Outcome, SendError>>;

/// Sends messages to their entities, on a connection that is made again when it is lost.
pub(crate) struct Producer {
    settings: Arc<Settings>,
    slot: Mutex<Slot>,
}

#[derive(Default)]
struct Slot {
    /// Counts connections, so that an old failure does not end a new one.
    number: u64,
    line: Option<Line>,
    senders: HashMap<String, Arc<Mutex<Sender>>>,
}

/// A link to send by, and the number of its connection.
struct Way {
    sender: Arc<Mutex<Sender>>,
    number: u64,
}

/// A message and where it goes.
struct Parcel {
    entity: String,
    message: Sendable<Data>,
}

/// A sending that failed: whether anything had gone out.
struct Failed {
    error: Error,
    is_unsent: bool,
}

impl Producer {
    pub(crate) fn new(settings: Arc<Settings>) -> Self {
        Self { settings, slot: Mutex::default() }
    }

    /// Connects, and shows the broker who we are.
    pub(crate) async fn open(&self) -> Result<()> {
        let opening = async {
            let mut slot = self.slot.lock().await;
            let entity = self.settings.address.entity.clone().unwrap_or_default();
            Box::pin(self.line(&mut slot).await?.tokens()?.put(&entity)).await
        };
        self.settings.in_time(opening).await.map_err(|error| error.during("connect"))
    }

    pub(crate) async fn publish(&self, batch: &[Outgoing], now: Timestamp) -> Result<()> {
        self.deliver(self.parcels(batch, &self.settings.wrapping, now)?).await
    }

    /// Sends a copy of what is put back, in our own envelope: it is for us alone.
    pub(crate) async fn put_back(&self, copy: Outgoing, now: Timestamp) -> Result<()> {
        self.deliver(self.parcels(&[copy], &Wrapping::default(), now)?).await
    }

    async fn deliver(&self, parcels: Vec<Parcel>) -> Result<()> {
        let settings = &self.settings;
        let until = clock::add(settings.clock.now(), settings.timeout);
        let sent = clock::within(&*settings.clock, until, self.send_again(&parcels)).await;
        let sent = if let Some(sent) = sent {
            sent
        } else {
            // A broker that is silent now would be so the next time as well.
            *self.slot.lock().await = Slot::default();
            Err(settings.about("").silent())
        };
        sent.map_err(|error| error.during("publish"))
    }

    fn parcels(
        &self,
        batch: &[Outgoing],
        wrapping: &Wrapping,
        now: Timestamp,
    ) -> Result<Vec<Parcel>> {
        let settings = &self.settings;
        batch.iter().try_for_each(|outgoing| outgoing.message.body.check(settings.payload_max))?;
        let parcel = |outgoing: &Outgoing| {
            let message = &outgoing.message;
            let due_at = Some(outgoing.delay).filter(|delay| !delay.is_zero());
            let due_at = due_at.map(|delay| clock::add(now, delay));
            let id = format!("{}@{}", message.id, settings.ids.next(now));
            let entity = settings.entity(&message.topic)?;
            let message = written(wrapping.wire(outgoing, ATTRIBUTE_PREFIX)?, id, due_at)?;
            Ok(Parcel { entity, message: message.into() })
        };
        batch.iter().map(parcel).collect()
    }

    /// Sends; once more when the connection turned out to be gone before anything went out.
    async fn send_again(&self, parcels: &[Parcel]) -> Result<()> {
        match self.send(parcels).await {
            Err(Failed { error, is_unsent: true }) if error.is_temporary() => {
                self.send(parcels).await.map_err(|failed| failed.error)
            }
            sent => sent.map_err(|failed| failed.error),
        }
    }

    async fn send(&self, parcels: &[Parcel]) -> std::result::Result<(), Failed> {
        let mut answers: Vec<Answer> = Vec::with_capacity(parcels.len());
        let mut last = None;
        for run in parcels.chunk_by(|one, next| one.entity == next.entity) {
            let entity = &run[0].entity;
            let way = self
                .way(entity)
                .await
                .map_err(|error| Failed { error, is_unsent: answers.is_empty() })?;
            let mut sender = way.sender.lock().await;
            for parcel in run {
                match sender.send_batchable_ref(&parcel.message).await {
                    Ok(answer) => answers.push(answer),
                    Err(error) => {
                        drop(sender);
                        let is_unsent = answers.is_empty();
                        return Err(Failed {
                            error: self.failed(&way, entity, error).await,
                            is_unsent,
                        });
                    }
                }
            }
            drop(sender);
            last = Some((way, entity));
        }
        let Some((way, entity)) = last else { return Ok(()) };
        let Some(answers) = self.answered(&way, answers).await else {
            let error = self.settings.about(entity).failed(LinkStateError::RemoteDetached);
            return Err(Failed { error, is_unsent: false });
        };
        for answer in answers {
            let error = match answer {
                Ok(Outcome::Accepted(_)) => continue,
                Ok(Outcome::Rejected(rejected)) => match rejected.error {
                    Some(told) => self.settings.about(entity).refused(&told),
                    None => Error::unavailable(format!(
                        "Service Bus did not take a message to {entity:?} and does not say why; try again"
                    )),
                },
                Ok(_) => Error::unavailable(format!(
                    "Service Bus gave a message to {entity:?} back without taking it; try again"
                )),
                Err(error) => self.failed(&way, entity, error).await,
            };
            return Err(Failed { error, is_unsent: false });
        }
        Ok(())
    }

    /// What the broker said about every message; nothing when the connection is gone. The library lets
    /// those wait for ever whose connection is lost, so that is looked at meanwhile.
    async fn answered(
        &self,
        way: &Way,
        answers: Vec<Answer>,
    ) -> Option<Vec<std::result::Result<Outcome, SendError>>> {
        let clock = &*self.settings.clock;
        let answers = join_all(answers);
        tokio::pin!(answers);
        loop {
            let next = clock::add(clock.now(), LOOK_EVERY);
            if let Some(answers) = clock::within(clock, next, &mut answers).await {
                return Some(answers);
            }
            let slot = self.slot.lock().await;
            if slot.number != way.number || slot.line.as_ref().is_none_or(Line::is_over) {
                return None;
            }
        }
    }

    /// A link to an entity: the one that is there, or a new one.
    async fn way(&self, entity: &str) -> Result<Way> {
        let mut slot = self.slot.lock().await;
        self.line(&mut slot).await?;
        let Slot { number, line: Some(line), senders } = &mut *slot else {
            return Err(Error::internal("a connection that was made is there"));
        };
        if self.settings.clock.now() >= line.tokens()?.renew_at() {
            // While nobody sent anything the broker may have closed links whose tokens ran out.
            senders.clear();
            Box::pin(line.tokens()?.renew()).await?;
        }
        if let Some(sender) = senders.get(entity) {
            return Ok(Way { sender: sender.clone(), number: *number });
        }
        if senders.len() >= SENDERS_MAX {
            senders.clear();
        }
        let sender = Arc::new(Mutex::new(Box::pin(line.sender(entity)).await?));
        senders.insert(entity.to_owned(), sender.clone());
        Ok(Way { sender, number: *number })
    }

    async fn line<'a>(&self, slot: &'a mut Slot) -> Result<&'a mut Line> {
        if slot.line.as_ref().is_some_and(Line::is_over) {
            slot.line = None;
        }
        if slot.line.is_none() {
            slot.senders.clear();
            slot.number += 1;
            slot.line = Some(Box::pin(Line::open(&self.settings)).await?);
        }
        slot.line.as_mut().ok_or_else(|| Error::internal("a connection that was made is there"))
    }

    /// The error for the caller; what is of no further use is forgotten.
    async fn failed(&self, way: &Way, entity: &str, error: SendError) -> Error {
        let recovery = error.recovery();
        let mut slot = self.slot.lock().await;
        let is_present = slot.number == way.number;
        match recovery {
            ErrorRecovery::UseLink => {}
            ErrorRecovery::NewLink | ErrorRecovery::ReattachLink if is_present => {
                slot.senders.remove(entity);
            }
            _ if is_present => {
                slot.line = None;
                slot.senders.clear();
            }
            _ => {}
        }
        drop(slot);
        if let SendError::MessageSizeExceeded(size) = &error {
            return Error::invalid(format!(
                "a message of {} bytes with its headers is too large for {entity:?}, which takes {}; store its body elsewhere and send a reference",
                size.size, size.max_size
            ));
        }
        self.settings.about(entity).failed(error)
    }
}
