//! What a builder is told about sending: which transport carries which topic, how messages get to their
//! transport, and what bodies are written in.

use std::sync::Arc;

use super::Builder;
use crate::client::Sending;
use crate::codec::Codec;

impl Builder {
    /// The transport that carries a topic when its sender names none: an exact topic, or what topics
    /// begin with and a `*` at the end. The exact one wins, then the longest.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use punctual::{Punctual, SystemClock, builtin::memory_transport, model::ProcessId, uuid::Uuid};
    /// # let post = Arc::new(memory_transport(Arc::new(SystemClock), ProcessId::from_uuid(Uuid::nil())));
    /// let builder = Punctual::builder().transport("post", post).route("orders.*", "post");
    /// # assert!(builder.build().is_ok());
    /// ```
    pub fn route(mut self, topics: impl Into<String>, transport: impl Into<String>) -> Self {
        self.sends.routes.push((topics.into(), transport.into()));
        self
    }

    /// The transport of everything that has no route and whose sender names none. Without it the storage
    /// carries such messages. Jobs and batches are always the storage's.
    pub fn via_default(mut self, transport: impl Into<String>) -> Self {
        self.sends.via_default = Some(transport.into());
        self
    }

    /// How messages get to their transport when their sender does not say.
    pub fn sending(mut self, sending: Sending) -> Self {
        self.sends.sending = sending;
        self
    }

    /// Lets the storage keep the delays of a transport even where the transport could wait itself: one
    /// place to look, and one place to cancel.
    pub fn prefer_storage(mut self, transport: impl Into<String>) -> Self {
        self.sends.prefer_storage.push(transport.into());
        self
    }

    /// One more way in which bodies are written and read, by its content type; JSON is there already.
    pub fn codec(mut self, codec: impl Codec) -> Self {
        self.codecs.add(Arc::new(codec));
        self
    }

    /// What payloads are written in unless their sender says otherwise, and what bodies are read as that
    /// say nothing about themselves. Without it that is JSON.
    pub fn default_codec(mut self, codec: impl Codec) -> Self {
        self.codecs.add_default(Arc::new(codec));
        self
    }
}
