//! Tests of the codecs: bodies are written by the requested codec and read by the one they name.

use super::*;

/// Codec of JSON behind a mark, so that it reads nothing that the JSON codec wrote.
struct Marked;

impl Codec for Marked {
    fn content_type(&self) -> &'static str {
        "application/x-marked"
    }

    fn encode(&self, payload: &dyn ErasedSerialize) -> Result<Vec<u8>> {
        let json =
            serde_json::to_vec(payload).map_err(|error| Error::invalid(error.to_string()))?;
        Ok([b"#", &json[..]].concat())
    }

    fn decode(&self, bytes: &[u8], read: PayloadReader<'_>) -> Result<()> {
        let json = bytes.strip_prefix(b"#").ok_or_else(|| Error::invalid("the mark is missing"))?;
        let mut from = serde_json::Deserializer::from_slice(json);
        read(&mut <dyn Deserializer<'_>>::erase(&mut from))
            .map_err(|error| Error::invalid(error.to_string()))
    }
}

fn message(body: Body) -> Message {
    Message { body, ..crate::wire::tests::message() }
}

fn both(default: bool) -> Codecs {
    let mut codecs = Codecs::default();
    if default {
        codecs.add_default(Arc::new(Marked));
    } else {
        codecs.add(Arc::new(Marked));
    }
    codecs.checked(&Options::default()).unwrap()
}

#[test]
fn a_body_is_read_by_the_codec_of_its_content_type() {
    for codecs in [both(false), both(true)] {
        for content_type in ["application/json", "application/x-marked"] {
            let body = codecs.write(&vec![1, 2], Some(content_type)).unwrap();
            assert_eq!(body.content_type, content_type);
            assert_eq!(codecs.read::<Vec<u8>>(&message(body)).unwrap(), [1, 2]);
        }
        let named = Body::raw("#7", "Application/X-Marked; v=1");
        assert_eq!(codecs.read::<u8>(&message(named)).unwrap(), 7);
        let json = Body::raw("7", "application/vnd.shop+json; charset=utf-8");
        assert_eq!(codecs.read::<u8>(&message(json)).unwrap(), 7);
    }
}

#[test]
fn a_body_without_a_known_type_is_read_by_the_default_codec() {
    let untyped = |text: &'static str| message(Body::raw(text, CONTENT_TYPE_UNKNOWN));
    assert_eq!(both(false).write(&7, None).unwrap().bytes, "7");
    assert_eq!(both(false).read::<u8>(&untyped("7")).unwrap(), 7);
    assert_eq!(both(true).write(&7, None).unwrap().bytes, "#7");
    assert_eq!(both(true).read::<u8>(&untyped("#7")).unwrap(), 7);
}

#[test]
fn a_content_type_without_a_codec_is_named() {
    let codecs = both(false);
    let error = codecs.read::<u8>(&message(Body::raw("7", "image/png"))).unwrap_err().to_string();
    assert!(error.contains("\"image/png\""), "{error}");
    let error = codecs.write(&7, Some("image/png")).unwrap_err().to_string();
    assert!(error.contains("\"image/png\"") && error.contains("application/x-marked"), "{error}");
    let torn = message(Body::raw("7", "application/x-marked"));
    let error = codecs.read::<u8>(&torn).unwrap_err().to_string();
    assert!(error.contains("cannot be read as u8: the mark is missing"), "{error}");
}

#[test]
fn two_codecs_for_one_content_type_are_refused() {
    let mut twice = Codecs::default();
    twice.add(Arc::new(Marked));
    twice.add(Arc::new(Marked));
    let error = twice.checked(&Options::default()).unwrap_err().to_string();
    assert!(error.contains("two codecs for \"application/x-marked\""), "{error}");
}

#[cfg(feature = "messagepack")]
#[test]
fn message_pack_round_trips() {
    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    struct Order {
        number: u64,
        lines: Vec<(String, f64)>,
        note: Option<String>,
    }
    let mut codecs = Codecs::default();
    codecs.add(Arc::new(MessagePack));
    let codecs = codecs.checked(&Options::default()).unwrap();
    let order = Order { number: 7, lines: vec![("tea".to_owned(), 2.5)], note: None };
    let body = codecs.write(&order, Some("application/msgpack")).unwrap();
    assert!(body.bytes.len() < serde_json::to_vec(&order).unwrap().len());
    assert_eq!(codecs.read::<Order>(&message(body.clone())).unwrap(), order);
    let cut = Body::raw(body.bytes.slice(..body.bytes.len() - 3), "application/msgpack");
    let error = codecs.read::<Order>(&message(cut)).unwrap_err().to_string();
    assert!(error.contains("cannot be read as"), "{error}");
}
