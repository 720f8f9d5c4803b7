//! Compression of bodies: a body is compressed when a message is sent, after the middleware has run, and
//! decompressed when it is read. In storages and on brokers it stays compressed, marked by a reserved header.
//! Decompression is limited, so that a small body cannot fill the memory.

use std::borrow::Cow;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::model::{Body, Message, MessageRecord, reserved_headers};

const GZIP: &str = "gzip";

/// Compresses the body of a message if it is larger than `above` bytes and becomes smaller.
pub(crate) fn compress(message: &mut Message, above: Option<usize>) -> Result<()> {
    match above {
        Some(above)
            if message.body.bytes.len() > above
                && message.headers.get(reserved_headers::ENCODING).is_none() =>
        {
            let compressed = gzip::compress(&message.body.bytes)?;
            if compressed.len() < message.body.bytes.len() {
                message.body.bytes = compressed.into();
                message.headers.set_reserved(reserved_headers::ENCODING, GZIP.to_owned());
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

impl Message {
    /// Returns the body as its sender wrote it, decompressed. Fails when that would be larger than `payload_max`,
    /// or cannot be done.
    pub fn content(&self, payload_max: usize) -> Result<Cow<'_, Body>> {
        match self.headers.get(reserved_headers::ENCODING) {
            None => Ok(Cow::Borrowed(&self.body)),
            Some(GZIP) => {
                let bytes = gzip::decompress(&self.body.bytes, payload_max)?;
                Ok(Cow::Owned(Body::raw(bytes, self.body.content_type.clone())))
            }
            Some(other) => Err(Error::invalid(format!(
                "the body is compressed as {other:?}, which is unknown here"
            ))),
        }
    }
}

/// Returns a record with its body decompressed. A body that cannot be decompressed is left as it is.
pub(crate) fn decompressed(mut record: MessageRecord, payload_max: usize) -> MessageRecord {
    if let Ok(message) = decompressed_message(&record.message, payload_max) {
        record.message = message;
    }
    record
}

/// Returns a message with its body decompressed.
pub(crate) fn decompressed_message(
    message: &Arc<Message>,
    payload_max: usize,
) -> Result<Arc<Message>> {
    let Cow::Owned(body) = message.content(payload_max)? else { return Ok(message.clone()) };
    let mut plain = Message { body, ..Message::clone(message) };
    plain.headers.remove(reserved_headers::ENCODING);
    Ok(Arc::new(plain))
}

/// Fails when the program was built without compression.
#[cfg_attr(feature = "compression", allow(clippy::unnecessary_wraps))] // it fails without the feature
pub(crate) fn check() -> Result<()> {
    #[cfg(feature = "compression")]
    return Ok(());
    #[cfg(not(feature = "compression"))]
    Err(gzip::feature_missing())
}

#[cfg(feature = "compression")]
mod gzip {
    use std::io::{Read, Write};

    use flate2::Compression;
    use flate2::read::GzDecoder;
    use flate2::write::GzEncoder;

    use crate::error::{Error, Result};

    pub(super) fn compress(bytes: &[u8]) -> Result<Vec<u8>> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder
            .write_all(bytes)
            .and_then(|()| encoder.finish())
            .map_err(|error| Error::internal(format!("the body cannot be compressed: {error}")))
    }

    pub(super) fn decompress(bytes: &[u8], payload_max: usize) -> Result<Vec<u8>> {
        let mut plain = Vec::new();
        let limit = u64::try_from(payload_max).unwrap_or(u64::MAX).saturating_add(1);
        GzDecoder::new(bytes).take(limit).read_to_end(&mut plain).map_err(|error| {
            Error::invalid(format!("the compressed body cannot be read: {error}"))
        })?;
        if plain.len() > payload_max {
            return Err(Error::invalid(format!(
                "the compressed body has more than {payload_max} bytes when it is read; raise payload_max to accept it"
            )));
        }
        Ok(plain)
    }
}

#[cfg(not(feature = "compression"))]
mod gzip {
    use crate::error::{Error, Result};

    pub(super) fn feature_missing() -> Error {
        Error::unsupported("this program was built without the feature `compression`")
    }

    pub(super) fn compress(_: &[u8]) -> Result<Vec<u8>> {
        Err(feature_missing())
    }

    pub(super) fn decompress(_: &[u8], _: usize) -> Result<Vec<u8>> {
        Err(feature_missing())
    }
}

#[cfg(all(test, feature = "compression"))]
mod tests {
    use super::*;
    use crate::wire::tests::message;

    fn large(text: String) -> Message {
        Message { body: Body::raw(text, "text/plain"), ..message() }
    }

    #[test]
    fn a_large_body_is_compressed_when_sent_and_restored_when_read() {
        let sent = large("tea ".repeat(1_000));
        let mut packed = sent.clone();
        compress(&mut packed, Some(3_999)).unwrap();
        assert!(packed.body.bytes.len() < 200, "{}", packed.body.bytes.len());
        assert_eq!(*packed.content(4_000).unwrap(), sent.body);
        let once = packed.clone();
        compress(&mut packed, Some(10)).unwrap();
        assert_eq!(packed, once, "nothing is compressed twice");
        let names: Vec<_> = packed.headers.iter().collect();
        assert_eq!(names, [("tenant", "acme")], "the encoding is not shown");
    }

    #[test]
    fn a_small_or_incompressible_body_is_left_alone() {
        for (text, above) in [
            ("tea ".repeat(1_000), None),
            ("tea ".repeat(1_000), Some(4_000)),
            ("tea".into(), Some(1)),
        ] {
            let sent = large(text);
            let mut packed = sent.clone();
            compress(&mut packed, above).unwrap();
            assert_eq!(packed, sent);
        }
    }

    #[test]
    fn a_bomb_and_a_torn_body_are_refused() {
        let mut bomb = large("\0".repeat(10_000_000));
        compress(&mut bomb, Some(0)).unwrap();
        assert!(bomb.body.bytes.len() < 50_000);
        let error = bomb.content(1_000_000).unwrap_err().to_string();
        assert!(error.contains("more than 1000000 bytes"), "{error}");
        let half = bomb.body.bytes.slice(..bomb.body.bytes.len() / 2);
        let torn = Message { body: Body::raw(half, "text/plain"), ..bomb.clone() };
        let error = torn.content(20_000_000).unwrap_err().to_string();
        assert!(error.contains("cannot be read"), "{error}");
        bomb.headers.set_reserved(reserved_headers::ENCODING, "zip".to_owned());
        assert!(bomb.content(1).unwrap_err().to_string().contains("\"zip\""));
    }
}
