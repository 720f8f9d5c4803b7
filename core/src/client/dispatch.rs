//! Dispatch of messages to a transport or to the storage. `policy::delay_place` decides where a delay is kept; the
//! sender's delivery mode decides whether a message is stored first.

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
use crate::policy::{DelayOptions, DelayPlace, delay_place, delay_unsupported};
use crate::storage::{EnqueueResult, Entry};
use crate::transport::{Delay, Outgoing, Transport};

/// Route of a message.
#[derive(Clone, Debug)]
pub(super) struct Route {
    /// The transport; `None` is the storage.
    pub(super) via: Option<TransportName>,
    /// The only group that receives it; `None` for all.
    pub(super) group: Option<String>,
    pub(super) sending: Sending,
    /// Whether it replaces a pending message with the same deduplication key.
    pub(super) replace: bool,
}

/// The first step of a dispatch.
enum Step {
    /// Publish to the transport, with this delay.
    Send(Duration),
    /// Store; `held` when the storage keeps a delay for the transport.
    Store { held: bool },
}

/// Dispatch of the messages of one call.
pub(super) struct Dispatch<'a> {
    process: &'a Process,
    now: Timestamp,
    published: Vec<PublishResult>,
    entries: Vec<(usize, Entry)>,
    held: Vec<(MessageId, TransportName, Timestamp)>,
    batches: BTreeMap<TransportName, Vec<Routed>>,
}

/// A message for a transport, with its route and its index in the call.
struct Routed {
    index: usize,
    outgoing: Outgoing,
    route: Route,
}

impl<'a> Dispatch<'a> {
    pub(super) fn new(process: &'a Process, now: Timestamp) -> Self {
        let (published, entries) = (Vec::new(), Vec::new());
        Self { process, now, published, entries, held: Vec::new(), batches: BTreeMap::new() }
    }

    /// Adds a message; nothing is sent yet.
    pub(super) fn add(&mut self, mut message: Message, route: Route) -> Result<()> {
        compress(&mut message, self.process.options.compress_above)?;
        let index = self.published.len();
        let step = step(self.process, &message, &route, self.now)?;
        self.published.push(PublishResult { id: message.id, duplicate_of: None });
        match (step, &route.via) {
            (Step::Send(delay), Some(name)) => {
                let (message, group) = (Arc::new(message), route.group.clone());
                let outgoing = Outgoing { message, delay, attempt: 0, group };
                self.batches.entry(name.clone()).or_default().push(Routed {
                    index,
                    outgoing,
                    route,
                });
            }
            (Step::Store { held: true }, Some(name)) => {
                self.held.push((message.id, name.clone(), message.due_at));
                self.entries.push((index, entry(message, &route)));
            }
            _ => self.entries.push((index, entry(message, &route))),
        }
        Ok(())
    }

    /// Sends all messages: to the storage in one step, then one batch to each transport.
    pub(super) async fn send(mut self) -> Result<Vec<PublishResult>> {
        let entries = std::mem::take(&mut self.entries);
        self.store(entries).await?;
        for (message, transport, due_at) in std::mem::take(&mut self.held) {
            self.process.events.emit(Event::MessageHeld { message, transport, due_at });
        }
        for (name, batch) in std::mem::take(&mut self.batches) {
            self.publish(name, batch).await?;
        }
        Ok(self.published)
    }

    async fn store(&mut self, entries: Vec<(usize, Entry)>) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let stored = entries.iter().map(|(_, entry)| entry.clone()).collect();
        let results = self.process.storage.enqueue(stored, self.now).await?;
        for ((index, entry), result) in entries.into_iter().zip(results) {
            self.published[index] = emit_enqueued(self.process, &entry.message, result);
        }
        Ok(())
    }

    async fn publish(&mut self, name: TransportName, batch: Vec<Routed>) -> Result<()> {
        let transport = transport(self.process, &name)?;
        let outgoing = batch.iter().map(|routed| routed.outgoing.clone()).collect();
        let Err(error) = transport.publish(outgoing, self.now).await else {
            for routed in batch {
                let (message, transport) = (routed.outgoing.message.id, name.clone());
                self.process.events.emit(Event::MessageRelayed { message, transport });
            }
            return Ok(());
        };
        let mut entries = Vec::with_capacity(batch.len());
        let mut error = error;
        for Routed { index, outgoing, route } in batch {
            error = fall_back(self.process, &outgoing.message, &route, error)?;
            entries.push((index, entry(Arc::unwrap_or_clone(outgoing.message), &route)));
        }
        self.store(entries).await
    }
}

/// Sends one message: the common case, without the collections of a batch.
pub(super) async fn send_one(
    process: &Process,
    mut message: Message,
    route: &Route,
    now: Timestamp,
) -> Result<PublishResult> {
    compress(&mut message, process.options.compress_above)?;
    let id = message.id;
    let entry = match (step(process, &message, route, now)?, &route.via) {
        (Step::Send(delay), Some(name)) => {
            let message = Arc::new(message);
            let (copy, group) = (Arc::clone(&message), route.group.clone());
            let outgoing = Outgoing { message: copy, delay, attempt: 0, group };
            match transport(process, name)?.publish(vec![outgoing], now).await {
                Ok(()) => {
                    let transport = name.clone();
                    process.events.emit(Event::MessageRelayed { message: id, transport });
                    return Ok(PublishResult { id, duplicate_of: None });
                }
                Err(error) => {
                    fall_back(process, &message, route, error)?;
                    entry(Arc::unwrap_or_clone(message), route)
                }
            }
        }
        (Step::Store { held: true }, Some(name)) => {
            let (transport, due_at) = (name.clone(), message.due_at);
            let published = store(process, entry(message, route), now).await?;
            process.events.emit(Event::MessageHeld { message: id, transport, due_at });
            return Ok(published);
        }
        _ => entry(message, route),
    };
    store(process, entry, now).await
}

async fn store(process: &Process, entry: Entry, now: Timestamp) -> Result<PublishResult> {
    let message = Arc::clone(&entry.message);
    let results = process.storage.enqueue(vec![entry], now).await?;
    let result = results.first().copied().unwrap_or(EnqueueResult::Stored);
    Ok(emit_enqueued(process, &message, result))
}

/// Returns the error when a message that its transport refused is to be stored instead; else fails with it.
fn fall_back(process: &Process, message: &Message, route: &Route, error: Error) -> Result<Error> {
    match &route.via {
        Some(name)
            if route.sending == Sending::Automatic
                && error.is_temporary()
                && process.has_storage =>
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

fn step(process: &Process, message: &Message, route: &Route, now: Timestamp) -> Result<Step> {
    let wait = between(now, message.due_at);
    let storage = process.has_storage;
    let Some(name) = &route.via else {
        // Without a storage a message cannot wait.
        let means = DelayOptions { native: Delay::None, storage, prefer_storage: true };
        return match delay_place(wait, means) {
            DelayPlace::Unsupported => Err(delay_unsupported(message.id, wait, Delay::None)),
            _ => Ok(Step::Store { held: false }),
        };
    };
    let can = transport(process, name)?.capabilities();
    if let Some(payload_max) = can.payload_max
        && message.body.bytes.len() > payload_max
    {
        return Err(too_large(message, name, payload_max));
    }
    if route.sending == Sending::Durable {
        return if storage { Ok(Step::Store { held: false }) } else { Err(no_storage(message)) };
    }
    let native = can.publish_delay;
    let prefer_storage = !wait.is_zero() && process.outbound.prefers_storage(name);
    match delay_place(wait, DelayOptions { native, storage, prefer_storage }) {
        DelayPlace::NoDelay => Ok(Step::Send(Duration::ZERO)),
        DelayPlace::Transport(delay) => Ok(Step::Send(delay)),
        DelayPlace::Storage(_) => Ok(Step::Store { held: true }),
        DelayPlace::Unsupported => Err(delay_unsupported(message.id, wait, native)),
    }
}

fn transport<'a>(process: &'a Process, name: &TransportName) -> Result<&'a Arc<dyn Transport>> {
    process.transports.get(name).ok_or_else(|| {
        Error::not_found(format!("there is no transport {name:?}; give it to the builder first"))
    })
}

/// Headers of a message in the queue of a relay, which the relay removes.
const ATTEMPT_HEADER: &str = "punctual-attempt";
const GROUP_HEADER: &str = "punctual-group";
const DUE_HEADER: &str = "punctual-due";

/// Returns the entry of a message; one for a single group has headers for the relay.
pub(super) fn entry(mut message: Message, route: &Route) -> Entry {
    if let (Some(_), Some(group)) = (&route.via, &route.group) {
        message.headers.set_reserved(ATTEMPT_HEADER, "0".to_owned());
        message.headers.set_reserved(GROUP_HEADER, group.clone());
        message.headers.set_reserved(DUE_HEADER, message.due_at.to_string());
    }
    Entry { message: Arc::new(message), replace: route.replace }
}

fn no_storage(message: &Message) -> Error {
    Error::invalid(format!(
        "the message {} is to be sent durably, but there is no storage; give the builder a storage, or send it directly",
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

/// Emits the event of an enqueued message and returns its result.
pub(super) fn emit_enqueued(
    process: &Process,
    message: &Message,
    result: EnqueueResult,
) -> PublishResult {
    let published = PublishResult::new(message.id, result);
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
