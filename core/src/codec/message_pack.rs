//! MessagePack codec: bodies smaller than JSON, with field names, so that either side may add fields.

use super::{Codec, PayloadReader};
use crate::error::{Error, Result};

/// Codec for `application/msgpack`.
#[derive(Clone, Copy, Debug, Default)]
pub struct MessagePack;

impl Codec for MessagePack {
    fn content_type(&self) -> &'static str {
        "application/msgpack"
    }

    fn encode(&self, payload: &dyn erased_serde::Serialize) -> Result<Vec<u8>> {
        rmp_serde::to_vec_named(payload).map_err(|error| {
            Error::invalid(format!("the payload cannot be written as MessagePack: {error}"))
                .caused_by(error)
        })
    }

    fn decode(&self, bytes: &[u8], read: PayloadReader<'_>) -> Result<()> {
        let mut from = rmp_serde::Deserializer::from_read_ref(bytes);
        read(&mut <dyn erased_serde::Deserializer<'_>>::erase(&mut from))
            .map_err(|error| Error::invalid(error.to_string()))
    }
}
