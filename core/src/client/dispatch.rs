//! Messages leave: through their transport, or into the storage. Who makes one
//! wait is the hold policy's word; whether it is stored first is its sender's.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::PublishResult;
use super::outbound::Sending;
use crate::clock::between;
use crate::compression::compress;
use crate::engine::Process;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::model::{Message, MessageId, TransportName};
use crate::policy::{DelayOptions, HoldDecision, cannot_wait, hold};
use crate::storage::{EnqueueResult, Entry};
use crate::transport::{Delay, Outgoing, Transport};

/// How a message leaves.
#[derive(Clone, Debug)]
pub(super) struct Way {
    /// The transport; none is the storage.
    pub(super) via: Option<TransportName>,
    /// The only group that gets it.
    pub(super) group: Option<String>,
    pub(super) sending: Sending,
    /// Whether it takes the place of a pending one.
    pub(super) replace: bool,
}

/// What happens to a message now.
enum Step {
    /// It is handed to a transport, with this delay.
    Send(Duration),
    /// It is stored; whether because its transport cannot wait.
    Store { held: bool },
}

/// The messages of one call, on their way.
pub(super) struct Leaving<'a> {
    process: &'a Process,
    now: Timestamp,
    published: Vec<PublishResult>,
    entries: Vec<(usize, Entry)>,
    held: Vec<(MessageId, TransportName, Timestamp)>,
    batches: BTreeMap<TransportName, Vec<Sent>>,
}

/// A message for a transport, and what is done when that fails.
struct Sent {
    place: usize,
    outgoing: Outgoing,
    way: Way,
}

impl<'a> Leaving<'a> {
    pub(super) fn new(process: &'a Process, now: Timestamp) -> Self {
        let (published, entries) = (Vec::new(), Vec::new());
        Self { process, now, published, entries, held: Vec::new(), batches: BTreeMap::new() }
    }

    /// Takes one more message along; nothing leaves yet.
    pub(super) fn add(&mut self, mut message: Message, way: Way) -> Result<()> {
        compress(&mut message, self.process.options.compress_above)?;
        let place = self.published.len();
        let step = step(self.process, &message, &way, self.now)?;
        self.published.push(PublishResult { id: message.id, duplicate_of: None });
        match (step, &way.via) {
            (Step::Send(delay), Some(name)) => {
                let (message, group) = (Arc::new(message), way.group.clone());
                let outgoing = Outgoing { message, delay, attempt: 0, group };
                self.batches.entry(name.clone()).or_default().push(Sent { place, outgoing, way });
            }
            (Step::Store { held: true }, Some(name)) => {
                self.held.push((message.id, name.clone(), message.due_at));
                self.entries.push((place, entry(message, &way)));
            }
            _ => self.entries.push((place, entry(message, &way))),
        }
        Ok(())
    }

    /// Lets all of them leave: into the storage in one step, then one batch to each transport.
    pub(super) async fn leave(mut self) -> Result<Vec<PublishResult>> {
        let entries = std::mem::take(&mut self.entries);
        self.store(entries).await?;
        for (message, transport, due_at) in std::mem::take(&mut self.held) {
            self.process.events.emit(Event::MessageHeld { message, transport, due_at });
        }
        for (name, batch) in std::mem::take(&mut self.batches) {
            self.carry(name, batch).await?;
        }
        Ok(self.published)
    }

    async fn store(&mut self, entries: Vec<(usize, Entry)>) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let stored = entries.iter().map(|(_, entry)| entry.clone()).collect();
        let answers = self.process.storage.enqueue(stored, self.now).await?;
        for ((place, entry), answer) in entries.into_iter().zip(answers) {
            self.published[place] = tell(self.process, &entry.message, answer);
        }
        Ok(())
    }

    async fn carry(&mut self, name: TransportName, batch: Vec<Sent>) -> Result<()> {
        let transport = transport(self.process, &name)?;
        let outgoing = batch.iter().map(|sent| sent.outgoing.clone()).collect();
        let Err(error) = transport.publish(outgoing, self.now).await else {
            for sent in batch {
                let (message, transport) = (sent.outgoing.message.id, name.clone());
                self.process.events.emit(Event::MessageRelayed { message, transport });
            }
            return Ok(());
        };
        let mut entries = Vec::with_capacity(batch.len());
        let mut error = error;
        for Sent { place, outgoing, way } in batch {
            error = fall_back(self.process, &outgoing.message, &way, error)?;
            entries.push((place, entry(Arc::unwrap_or_clone(outgoing.message), &way)));
        }
        self.store(entries).await
    }
}

/// Sends one message; the usual case, which pays for no batch.
pub(super) async fn send_one(
    process: &Process,
    mut message: Message,
    way: &Way,
    now: Timestamp,
) -> Result<PublishResult> {
    compress(&mut message, process.options.compress_above)?;
    let id = message.id;
    let entry = match (step(process, &message, way, now)?, &way.via) {
        (Step::Send(delay), Some(name)) => {
            let message = Arc::new(message);
            let (sent, group) = (Arc::clone(&message), way.group.clone());
            let outgoing = Outgoing { message: sent, delay, attempt: 0, group };
            match transport(process, name)?.publish(vec![outgoing], now).await {
                Ok(()) => {
                    let transport = name.clone();
                    process.events.emit(Event::MessageRelayed { message: id, transport });
                    return Ok(PublishResult { id, duplicate_of: None });
                }
                Err(error) => {
                    fall_back(process, &message, way, error)?;
                    entry(Arc::unwrap_or_clone(message), way)
                }
            }
        }
        (Step::Store { held: true }, Some(name)) => {
            let (transport, due_at) = (name.clone(), message.due_at);
            let published = store(process, entry(message, way), now).await?;
            process.events.emit(Event::MessageHeld { message: id, transport, due_at });
            return Ok(published);
        }
        _ => entry(message, way),
    };
    store(process, entry, now).await
}

async fn store(process: &Process, entry: Entry, now: Timestamp) -> Result<PublishResult> {
    let message = Arc::clone(&entry.message);
    let answers = process.storage.enqueue(vec![entry], now).await?;
    let answer = answers.first().copied().unwrap_or(EnqueueResult::Stored);
    Ok(tell(process, &message, answer))
}

/// Whether a message that its transport did not take is stored instead; else the error.
fn fall_back(process: &Process, message: &Message, way: &Way, error: Error) -> Result<Error> {
    match &way.via {
        Some(name)
            if way.sending == Sending::Automatic && error.is_temporary() && process.holds =>
        {
            process.events.emit(Event::MessageFellBack {
                message: message.id,
                transport: name.clone(),
                error: error.to_string(),
            });
            Ok(error)
        }
        _ => Err(error),
    }
}

fn step(process: &Process, message: &Message, way: &Way, now: Timestamp) -> Result<Step> {
    let wanted = between(now, message.due_at);
    let storage = process.holds;
    let Some(name) = &way.via else {
        // Without a storage there is nowhere to wait.
        let means = DelayOptions { native: Delay::None, storage, prefer_storage: true };
        return match hold(wanted, means) {
            HoldDecision::Refuse => Err(cannot_wait(message.id, wanted, Delay::None)),
            _ => Ok(Step::Store { held: false }),
        };
    };
    let can = transport(process, name)?.capabilities();
    if let Some(payload_max) = can.payload_max
        && message.body.bytes.len() > payload_max
    {
        return Err(too_large(message, name, payload_max));
    }
    if way.sending == Sending::Durable {
        return if storage { Ok(Step::Store { held: false }) } else { Err(no_storage(message)) };
    }
    let native = can.publish_delay;
    let prefer_storage = !wanted.is_zero() && process.outbound.prefers_storage(name);
    match hold(wanted, DelayOptions { native, storage, prefer_storage }) {
        HoldDecision::Send => Ok(Step::Send(Duration::ZERO)),
        HoldDecision::SendDelayed(delay) => Ok(Step::Send(delay)),
        HoldDecision::Keep(_) => Ok(Step::Store { held: true }),
        HoldDecision::Refuse => Err(cannot_wait(message.id, wanted, native)),
    }
}

fn transport<'a>(process: &'a Process, name: &TransportName) -> Result<&'a Arc<dyn Transport>> {
    process.transports.get(name).ok_or_else(|| {
        Error::not_found(format!("there is no transport {name:?}; give it to the builder first"))
    })
}

/// Carry what an entry of a relay's line says beside the message; see the unpacking of the relay.
const ATTEMPT_HEADER: &str = "punctual-attempt";
const GROUP_HEADER: &str = "punctual-group";
const DUE_HEADER: &str = "punctual-due";

/// A message as it is stored: one for a single group says so to the relay.
pub(super) fn entry(mut message: Message, way: &Way) -> Entry {
    if let (Some(_), Some(group)) = (&way.via, &way.group) {
        message.headers.note(ATTEMPT_HEADER, "0".to_owned());
        message.headers.note(GROUP_HEADER, group.clone());
        message.headers.note(DUE_HEADER, message.due_at.to_string());
    }
    Entry { message: Arc::new(message), replace: way.replace }
}

fn no_storage(message: &Message) -> Error {
    Error::invalid(format!(
        "the message {} is to be sent durably, and there is no storage to keep it in; give the builder a storage, or send it directly",
        message.id
    ))
    .with("message", message.id)
}

fn too_large(message: &Message, name: &TransportName, payload_max: usize) -> Error {
    Error::invalid(format!(
        "the body of the message {} has {} bytes, and the transport {name:?} carries {payload_max} at most; store it elsewhere and send a reference",
        message.id,
        message.body.bytes.len()
    ))
    .with("message", message.id)
}

/// Emits what the storage answered.
pub(super) fn tell(process: &Process, message: &Message, answer: EnqueueResult) -> PublishResult {
    let published = PublishResult::new(message.id, answer);
    let topic = message.topic.clone();
    process.events.emit(match published.duplicate_of {
        Some(alive) => Event::MessageDuplicate { message: message.id, alive, topic },
        None => Event::MessageEnqueued {
            message: message.id,
            topic,
            queue: message.queue.clone(),
            due_at: message.due_at,
        },
    });
    published
}
