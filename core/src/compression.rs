//! Compression of bodies: done when a message is sent, after the middleware has run, and undone when the
//! body is read. In between, in storages and on brokers, the body stays small, and a header of ours
//! says so. Decompression is bounded, so that a small body cannot become one that fills the memory.

use std::borrow::Cow;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::model::{Body, Message, MessageRecord, noted};

const GZIP: &str = "gzip";

/// Compresses the body of a message that is larger than so many bytes, if that makes it smaller.
pub(crate) fn compress(message: &mut Message, above: Option<usize>) -> Result<()> {
    match above {
        Some(above)
            if message.body.bytes.len() > above
                && message.headers.get(noted::ENCODING).is_none() =>
        {
            let squeezed = gzip::squeezed(&message.body.bytes)?;
            if squeezed.len() < message.body.bytes.len() {
                message.body.bytes = squeezed.into();
                message.headers.note(noted::ENCODING, GZIP.to_owned());
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
        match self.headers.get(noted::ENCODING) {
            None => Ok(Cow::Borrowed(&self.body)),
            Some(GZIP) => {
                let bytes = gzip::undone(&self.body.bytes, payload_max)?;
                Ok(Cow::Owned(Body::raw(bytes, self.body.content_type.clone())))
            }
            Some(other) => Err(Error::invalid(format!(
                "the body is compressed as {other:?}, which is unknown here"
            ))),
        }
    }
}

/// Returns a record with its body decompressed. A body that cannot be decompressed is left as it is.
pub(crate) fn opened(mut record: MessageRecord, payload_max: usize) -> MessageRecord {
    if let Ok(message) = opened_message(&record.message, payload_max) {
        record.message = message;
    }
    record
}

/// Returns a message with its body decompressed.
pub(crate) fn opened_message(message: &Arc<Message>, payload_max: usize) -> Result<Arc<Message>> {
    let Cow::Owned(body) = message.content(payload_max)? else { return Ok(message.clone()) };
    let mut opened = Message { body, ..Message::clone(message) };
    opened.headers.remove(noted::ENCODING);
    Ok(Arc::new(opened))
}

/// Refuses compression where the program was built without it.
#[cfg_attr(feature = "compression", allow(clippy::unnecessary_wraps))] // it fails without the feature
pub(crate) fn check() -> Result<()> {
    #[cfg(feature = "compression")]
    return Ok(());
    #[cfg(not(feature = "compression"))]
    Err(gzip::left_out())
}

#[cfg(feature = "compression")]
mod gzip {
    use std::io::{Read, Write};

    use flate2::Compression;
    use flate2::read::GzDecoder;
    use flate2::write::GzEncoder;

    use crate::error::{Error, Result};

    pub(super) fn squeezed(bytes: &[u8]) -> Result<Vec<u8>> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder
            .write_all(bytes)
            .and_then(|()| encoder.finish())
            .map_err(|error| Error::internal(format!("the body cannot be compressed: {error}")))
    }

    pub(super) fn undone(bytes: &[u8], payload_max: usize) -> Result<Vec<u8>> {
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

    pub(super) fn left_out() -> Error {
        Error::unsupported("this program was built without the feature `compression`")
    }

    pub(super) fn squeezed(_: &[u8]) -> Result<Vec<u8>> {
        Err(left_out())
    }

    pub(super) fn undone(_: &[u8], _: usize) -> Result<Vec<u8>> {
        Err(left_out())
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
    fn a_large_body_is_small_on_the_way_and_itself_when_read() {
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
        bomb.headers.note(noted::ENCODING, "zip".to_owned());
        assert!(bomb.content(1).unwrap_err().to_string().contains("\"zip\""));
    }
}
