//! What a handler's payload is read from: the body; without one, a fact of the message that the type
//! asks for, or nothing at all, or the occurrence.

use std::any::Any;

use serde::de::DeserializeOwned;

use crate::codec::Codecs;
use crate::error::Result;
use crate::model::{Body, Headers, JobName, Key, Message, MessageId, Occurrence, Source, Topic};

/// The payload of a message. A handler that takes the [`Body`] itself gets it as it was sent, whatever its
/// content type.
pub(super) fn read<M: DeserializeOwned + 'static>(message: &Message, codecs: &Codecs) -> Result<M> {
    let mut wanted: Option<M> = None;
    if let Some(place) = (&mut wanted as &mut dyn Any).downcast_mut::<Option<Body>>() {
        *place = Some(codecs.body(message)?);
    }
    if let Some(body) = wanted {
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
        (nothing, _) => nothing,
    }
}

/// A fact of a message by its type; none when it is no fact, or the message does not have it.
pub(super) fn fact<T: 'static>(message: &Message) -> Option<T> {
    let occurrence = || message.occurrence.clone();
    let job = || message.occurrence.as_ref().map(|occurrence| occurrence.job.clone());
    let mut wanted: Option<T> = None;
    let place = &mut wanted as &mut dyn Any;
    if let Some(place) = place.downcast_mut::<Option<Key>>() {
        place.clone_from(&message.key);
    } else if let Some(place) = place.downcast_mut::<Option<Option<Key>>>() {
        *place = Some(message.key.clone());
    } else if let Some(place) = place.downcast_mut::<Option<Occurrence>>() {
        *place = occurrence();
    } else if let Some(place) = place.downcast_mut::<Option<Option<Occurrence>>>() {
        *place = Some(occurrence());
    } else if let Some(place) = place.downcast_mut::<Option<JobName>>() {
        *place = job();
    } else if let Some(place) = place.downcast_mut::<Option<Option<JobName>>>() {
        *place = Some(job());
    } else if let Some(place) = place.downcast_mut::<Option<MessageId>>() {
        *place = Some(message.id);
    } else if let Some(place) = place.downcast_mut::<Option<Topic>>() {
        *place = Some(message.topic.clone());
    } else if let Some(place) = place.downcast_mut::<Option<Source>>() {
        *place = Some(message.source);
    } else if let Some(place) = place.downcast_mut::<Option<Headers>>() {
        *place = Some(message.headers.clone());
    }
    wanted
}
