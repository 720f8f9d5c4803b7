//! Wire format in AMQP 1.0: the body as data, its content type in the properties, every header an application
//! property. What the broker adds stays in annotations: no header of a message comes from it. This file encodes,
//! `decode` decodes.

mod decode;

use fe2o3_amqp::types::definitions::Fields;
use fe2o3_amqp::types::messaging::annotations::OwnedKey;
use fe2o3_amqp::types::messaging::{
    ApplicationProperties, Data, Header, Message as Amqp, MessageAnnotations, MessageId, Properties,
};
use fe2o3_amqp::types::primitives::{
    Binary, OrderedMap, SimpleValue, Symbol, Timestamp as Instant, Value,
};
use punctual::backend::wire::Wire;
use punctual::jiff::Timestamp;
use punctual::{Error, Result};

pub(crate) use self::decode::{DecodedDelivery, decode, undecodable};

const SCHEDULED: &str = "x-opt-scheduled-enqueue-time";
/// Prefix of CloudEvents attributes in AMQP; the other form, with a colon, is not allowed by every product.
pub(crate) const ATTRIBUTE_PREFIX: &str = "cloudEvents_";
/// Prefix of Punctual's own headers.
const OWN_PREFIX: &str = "punctual-";

/// Encodes a message, to be delivered not before an instant if one is given.
///
/// The message id is unique to this sending: an entity with duplicate detection must not drop what is requeued
/// or sent again on purpose.
pub(crate) fn encode(wire: Wire, id: String, due_at: Option<Timestamp>) -> Result<Amqp<Data>> {
    if !wire.content_type.is_ascii() {
        return Err(Error::invalid(format!(
            "the content type {:?} cannot be carried by AMQP; use ASCII characters only",
            wire.content_type
        )));
    }
    let scheduled = due_at.map(|due_at| {
        let time = Value::Timestamp(Instant::from_milliseconds(up_to_millisecond(due_at)));
        MessageAnnotations(OrderedMap::from_iter([(OwnedKey::from(SCHEDULED), time)]))
    });
    let properties = Properties {
        message_id: Some(MessageId::String(id)),
        content_type: Some(Symbol(wire.content_type.into_owned())),
        ..Properties::default()
    };
    let headers = wire.headers.into_iter();
    let headers = headers.map(|(name, value)| (name.into_owned(), SimpleValue::String(value)));
    Ok(Amqp {
        header: Some(Header { durable: true, ..Header::default() }),
        delivery_annotations: None,
        message_annotations: scheduled,
        properties: Some(properties),
        application_properties: Some(ApplicationProperties(headers.collect())),
        body: Data(Binary::from(wire.body.to_vec())),
        footer: None,
    })
}

/// Rounds up to a whole millisecond, so that nothing is due early.
fn up_to_millisecond(instant: Timestamp) -> i64 {
    let whole = instant.as_millisecond();
    whole + i64::from(instant.as_nanosecond() > i128::from(whole) * 1_000_000)
}

/// Returns the fields of a rejection, as the broker writes them on the dead letter: the reason, the error, and
/// Punctual's own headers.
pub(crate) fn dead_letter_fields(letter: &Wire) -> Fields {
    let mut fields = Fields::with_capacity(letter.headers.len() + 2);
    let text = |value: &str| Value::String(value.to_owned());
    for (known, name) in [
        ("punctual-dead-reason", "DeadLetterReason"),
        ("punctual-dead-error", "DeadLetterErrorDescription"),
    ] {
        if let Some(value) = letter.header(known) {
            fields.insert(Symbol::from(name), text(value));
        }
    }
    for (name, value) in letter.headers.iter().filter(|(name, _)| name.starts_with(OWN_PREFIX)) {
        fields.insert(Symbol(name.clone().into_owned()), text(value));
    }
    fields
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use fe2o3_amqp::types::messaging::message::__private::Serializable;

    use super::*;

    /// The bytes as part 1 and 3 of the standard define them, because a peer written with the same library would
    /// read anything that library writes.
    #[test]
    fn a_message_is_encoded_as_the_standard_has_it() {
        let headers = vec![("tenant".into(), "acme".to_owned())];
        let (body, content_type) = (Bytes::from_static(b"{}"), "text/plain".into());
        let due_at = Timestamp::from_millisecond(0x0102_0304_0506).unwrap();
        let wire = Wire { headers, body, content_type };
        let message = encode(wire, "7".to_owned(), Some(due_at)).unwrap();
        let bytes = serde_amqp::to_vec(&Serializable(message)).unwrap();
        for part in [
            &b"\x00\x53\x70"[..],
            b"\x00\x53\x72",
            b"\xa3\x1cx-opt-scheduled-enqueue-time\x83\x00\x00\x01\x02\x03\x04\x05\x06",
            b"\x00\x53\x73",
            b"\xa3\x0atext/plain",
            b"\x00\x53\x74",
            b"\xa1\x06tenant\xa1\x04acme",
            b"\x00\x53\x75\xa0\x02{}",
        ] {
            let found = bytes.windows(part.len()).any(|window| window == part);
            assert!(found, "{} in {}", part.escape_ascii(), bytes.escape_ascii());
        }
    }

    #[test]
    fn nothing_is_due_early() {
        for (nanosecond, millisecond) in [(0, 0), (1, 1), (999_999, 1), (1_000_000, 1)] {
            let instant = Timestamp::from_nanosecond(nanosecond).unwrap();
            assert_eq!(up_to_millisecond(instant), millisecond, "{nanosecond}");
        }
    }

    #[test]
    fn a_content_type_that_amqp_cannot_carry_is_refused() {
        let (headers, body) = (Vec::new(), Bytes::new());
        let wire = Wire { headers, body, content_type: "text/zażółć".into() };
        let error = encode(wire, "1".to_owned(), None).unwrap_err().to_string();
        assert!(error.contains("zażółć") && error.contains("ASCII"), "{error}");
    }
}
