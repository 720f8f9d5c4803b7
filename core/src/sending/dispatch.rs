//! Dispatch of messages to a transport or to the storage. `policy::delay_place` decides where a delay is kept; the
//! sender's delivery mode decides whether a message is stored first.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::outbound::Sending;
use super::{PublishResult, Sender};
use crate::compression::compress;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::model::time::between;
use crate::model::{Message, Route, TransportName};
use crate::policy::{DelayOptions, DelayPlace, delay_place, delay_unsupported};
use crate::storage::{EnqueueResult, Entry};
use crate::transport::{Delay, OutgoingMessage, Transport};

/// Destination of a message that is sent.
#[derive(Clone, Debug)]
pub(super) struct Destination {
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

/// Sends the messages of one call: those for the storage in one step, all or none, then one batch to each transport.
/// One message is a batch of one. Every message is checked before the first one is sent; after an error any of those for
/// transports may have been sent.
pub(super) async fn dispatch(
    sender: &Sender,
    messages: Vec<(Message, Destination)>,
    now: Timestamp,
) -> Result<Vec<PublishResult>> {
    let mut dispatch = Dispatch::new(sender, now, messages.len());
    for (message, destination) in messages {
        dispatch.add(message, destination)?;
    }
    dispatch.store().await?;
    for (name, batch) in std::mem::take(&mut dispatch.batches) {
        dispatch.publish(name, batch).await?;
    }
    Ok(dispatch.published)
}

/// The messages of one call, sorted by their first step.
struct Dispatch<'a> {
    sender: &'a Sender,
    now: Timestamp,
    /// Results, in the order of the call.
    published: Vec<PublishResult>,
    entries: Vec<Entry>,
    stored: Vec<StoredEntry>,
    batches: BTreeMap<TransportName, Vec<RoutedMessage>>,
}

/// An entry for the storage: its index in the call, and the transport for which its delay is held.
struct StoredEntry {
    index: usize,
    held_for: Option<TransportName>,
}

/// A message for a transport, with its destination and its index in the call.
struct RoutedMessage {
    index: usize,
    outgoing: OutgoingMessage,
    destination: Destination,
}

impl<'a> Dispatch<'a> {
    fn new(sender: &'a Sender, now: Timestamp, count: usize) -> Self {
        let (published, entries) = (Vec::with_capacity(count), Vec::new());
        Self { sender, now, published, entries, stored: Vec::new(), batches: BTreeMap::new() }
    }

    fn add(&mut self, mut message: Message, destination: Destination) -> Result<()> {
        compress(&mut message, self.sender.env.options.compress_above_bytes)?;
        let index = self.published.len();
        let step = step(self.sender, &message, &destination, self.now)?;
        self.published.push(PublishResult { id: message.id, duplicate_of: None });
        match (step, &destination.via) {
            (Step::Send(delay), Some(name)) => {
                let (name, group) = (name.clone(), destination.group.clone());
                let outgoing =
                    OutgoingMessage { message: Arc::new(message), delay, attempt: 0, group };
                self.batches.entry(name).or_default().push(RoutedMessage {
                    index,
                    outgoing,
                    destination,
                });
            }
            (step, via) => {
                let is_held = matches!(step, Step::Store { held: true });
                let held_for = via.clone().filter(|_| is_held);
                self.stored.push(StoredEntry { index, held_for });
                self.entries.push(entry(message, &destination));
            }
        }
        Ok(())
    }

    /// Stores the entries in one step.
    async fn store(&mut self) -> Result<()> {
        if self.entries.is_empty() {
            return Ok(());
        }
        let entries = std::mem::take(&mut self.entries);
        let messages: Vec<Arc<Message>> =
            entries.iter().map(|entry| Arc::clone(&entry.message)).collect();
        let results = self.sender.env.storage.enqueue(entries, self.now).await?;
        let stored = std::mem::take(&mut self.stored);
        for ((StoredEntry { index, held_for }, message), result) in
            stored.into_iter().zip(messages).zip(results)
        {
            self.published[index] = emit_enqueued(self.sender, &message, result);
            if let Some(transport) = held_for {
                let (message, due_at) = (message.id, message.due_at);
                self.sender.env.events.emit(Event::MessageHeld { message, transport, due_at });
            }
        }
        Ok(())
    }

    /// Sends a batch to a transport. After a temporary error, messages whose mode is automatic are stored for the relay.
    async fn publish(&mut self, name: TransportName, batch: Vec<RoutedMessage>) -> Result<()> {
        let transport = transport(self.sender, &name)?;
        let outgoing = batch.iter().map(|routed| routed.outgoing.clone()).collect();
        let Err(mut error) = transport.publish(outgoing, self.now).await else {
            for routed in batch {
                let (message, transport) = (routed.outgoing.message.id, name.clone());
                self.sender.env.events.emit(Event::MessageRelayed { message, transport });
            }
            return Ok(());
        };
        for RoutedMessage { index, outgoing, destination } in batch {
            error = fall_back(self.sender, &outgoing.message, &destination, error)?;
            self.stored.push(StoredEntry { index, held_for: None });
            self.entries.push(entry(Arc::unwrap_or_clone(outgoing.message), &destination));
        }
        self.store().await
    }
}

/// Returns the error when a message that its transport refused is to be stored instead; else fails with it.
fn fall_back(
    sender: &Sender,
    message: &Message,
    destination: &Destination,
    error: Error,
) -> Result<Error> {
    match &destination.via {
        Some(name)
            if destination.sending == Sending::Automatic
                && error.is_temporary()
                && sender.env.has_storage =>
        {
            sender.env.events.emit(Event::MessageFallbackStored {
                message: message.id,
                transport: name.clone(),
                error: error.to_string(),
            });
            Ok(error)
        }
        _ => Err(error),
    }
}

fn step(
    sender: &Sender,
    message: &Message,
    destination: &Destination,
    now: Timestamp,
) -> Result<Step> {
    let wait = between(now, message.due_at);
    let storage = sender.env.has_storage;
    let Some(name) = &destination.via else {
        // Without a storage a message cannot wait.
        let means = DelayOptions { native: Delay::None, storage, prefer_storage: true };
        return match delay_place(wait, means) {
            DelayPlace::Unsupported => Err(delay_unsupported(message.id, wait, Delay::None)),
            _ => Ok(Step::Store { held: false }),
        };
    };
    let can = transport(sender, name)?.capabilities();
    if let Some(payload_max) = can.payload_max
        && message.body.bytes.len() > payload_max
    {
        return Err(too_large(message, name, payload_max));
    }
    if destination.sending == Sending::Durable {
        return if storage { Ok(Step::Store { held: false }) } else { Err(no_storage(message)) };
    }
    let native = can.publish_delay;
    let prefer_storage = !wait.is_zero() && sender.outbound.prefers_storage(name);
    match delay_place(wait, DelayOptions { native, storage, prefer_storage }) {
        DelayPlace::NoDelay => Ok(Step::Send(Duration::ZERO)),
        DelayPlace::Transport(delay) => Ok(Step::Send(delay)),
        DelayPlace::Storage(_) => Ok(Step::Store { held: true }),
        DelayPlace::Unsupported => Err(delay_unsupported(message.id, wait, native)),
    }
}

fn transport<'a>(sender: &'a Sender, name: &TransportName) -> Result<&'a Arc<dyn Transport>> {
    sender.transports.get(name).ok_or_else(|| {
        Error::not_found(format!("there is no transport {name:?}; give it to the builder first"))
    })
}

/// Returns the entry of a message; one for a transport has its route.
pub(super) fn entry(mut message: Message, destination: &Destination) -> Entry {
    message.route = destination.via.as_ref().map(|name| {
        let group = destination.group.as_deref().map(Arc::from);
        Arc::new(Route { group, ..Route::new(name.clone()) })
    });
    Entry { message: Arc::new(message), replace: destination.replace }
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
fn emit_enqueued(sender: &Sender, message: &Message, result: EnqueueResult) -> PublishResult {
    let published = PublishResult::new(message.id, result);
    let topic = message.topic.clone();
    sender.env.events.emit(match published.duplicate_of {
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
