//! Payload of a handler: deserialized from the body. Without a body it is a property of the message of the requested
//! type, an empty value, or the occurrence.

use std::any::Any;

use serde::de::DeserializeOwned;

use crate::codec::Codecs;
use crate::error::Result;
use crate::model::{Body, Headers, JobName, Key, Message, MessageId, Occurrence, Source, Topic};

/// Returns the payload of a message. A handler that takes the [`Body`] itself receives it unchanged, of any content
/// type.
pub(super) fn read<M: DeserializeOwned + 'static>(message: &Message, codecs: &Codecs) -> Result<M> {
    let mut payload: Option<M> = None;
    if let Some(slot) = (&mut payload as &mut dyn Any).downcast_mut::<Option<Body>>() {
        *slot = Some(codecs.body(message)?);
    }
    if let Some(body) = payload {
        return Ok(body);
    }
    if !message.body.bytes.is_empty() {
        return codecs.read(message);
    }
    if let Some(fact) = fact::<M>(message) {
        return Ok(fact);
    }
    match (message.body.read(), &message.occurrence) {
        (Err(_), Some(occurrence)) => Body::json(occurrence)?.read(),
        (result, _) => result,
    }
}

/// Returns a property of a message by its type; `None` when no property has the type, or the message lacks it.
pub(super) fn fact<T: 'static>(message: &Message) -> Option<T> {
    let occurrence = || message.occurrence.clone();
    let job = || message.occurrence.as_ref().map(|occurrence| occurrence.job.clone());
    let mut fact: Option<T> = None;
    let any = &mut fact as &mut dyn Any;
    if let Some(slot) = any.downcast_mut::<Option<Key>>() {
        slot.clone_from(&message.key);
    } else if let Some(slot) = any.downcast_mut::<Option<Option<Key>>>() {
        *slot = Some(message.key.clone());
    } else if let Some(slot) = any.downcast_mut::<Option<Occurrence>>() {
        *slot = occurrence();
    } else if let Some(slot) = any.downcast_mut::<Option<Option<Occurrence>>>() {
        *slot = Some(occurrence());
    } else if let Some(slot) = any.downcast_mut::<Option<JobName>>() {
        *slot = job();
    } else if let Some(slot) = any.downcast_mut::<Option<Option<JobName>>>() {
        *slot = Some(job());
    } else if let Some(slot) = any.downcast_mut::<Option<MessageId>>() {
        *slot = Some(message.id);
    } else if let Some(slot) = any.downcast_mut::<Option<Topic>>() {
        *slot = Some(message.topic.clone());
    } else if let Some(slot) = any.downcast_mut::<Option<Source>>() {
        *slot = Some(message.source);
    } else if let Some(slot) = any.downcast_mut::<Option<Headers>>() {
        *slot = Some(message.headers.clone());
    }
    fact
}
