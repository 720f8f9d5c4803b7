//! Outbound settings of the builder: routes of topics to transports, the delivery mode, and codecs.

use std::sync::Arc;

use super::Builder;
use crate::codec::Codec;
use crate::sending::Sending;

impl Builder {
    /// Sets the transport of a topic for senders that name none. `topics` is a topic, or a prefix followed by `*`.
    /// An exact topic takes precedence, then the longest prefix.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use punctual::{Punctual, SystemClock, builtin::memory_transport, model::ProcessId, uuid::Uuid};
    /// # let post = Arc::new(memory_transport(Arc::new(SystemClock), ProcessId::from_uuid(Uuid::nil())));
    /// let builder = Punctual::builder().transport("post", post).route("orders.*", "post");
    /// # assert!(builder.build().is_ok());
    /// ```
    pub fn route(mut self, topics: impl Into<String>, transport: impl Into<String>) -> Self {
        self.outbound.routes.push((topics.into(), transport.into()));
        self
    }

    /// Sets the transport of messages without a route whose sender names none. Without it the storage carries
    /// them. Jobs and batches always use the storage.
    pub fn via_default(mut self, transport: impl Into<String>) -> Self {
        self.outbound.via_default = Some(transport.into());
        self
    }

    /// Sets the default delivery mode of messages to their transport.
    pub fn sending(mut self, sending: Sending) -> Self {
        self.outbound.sending = sending;
        self
    }

    /// Lets the storage keep the delays of a transport even when the transport supports delays, so that all
    /// delayed messages can be listed and cancelled there.
    pub fn prefer_storage(mut self, transport: impl Into<String>) -> Self {
        self.outbound.prefer_storage.push(transport.into());
        self
    }

    /// Adds a codec, which serializes and deserializes bodies of its content type; JSON is built in.
    pub fn codec(mut self, codec: impl Codec) -> Self {
        self.codecs.add(Arc::new(codec));
        self
    }

    /// Sets the default codec, for payloads of senders that choose none and for bodies without a content type.
    /// Without it that is JSON.
    pub fn default_codec(mut self, codec: impl Codec) -> Self {
        self.codecs.add_default(Arc::new(codec));
        self
    }
}
