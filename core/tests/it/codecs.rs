//! Codecs: bodies in other forms than JSON, and compressed ones, from the publisher to the handler, through the
//! storage and through brokers.

use std::sync::Arc;

use punctual::codec::{Codec, PayloadReader};
use punctual::erased_serde;
use punctual::model::{Body, DeadReason, MessageState};
use punctual::{Builder, Context, Error, Result};

use crate::broker::{Broker, PLAIN};
use crate::harness::{Bench, Log, seconds, world};
use crate::test_handlers::logging;

/// JSON behind a prefix, so that it cannot read plain JSON.
struct PrefixedJson;

impl Codec for PrefixedJson {
    fn content_type(&self) -> &'static str {
        "application/x-marked"
    }

    fn encode(&self, payload: &dyn erased_serde::Serialize) -> Result<Vec<u8>> {
        let json = punctual::serde_json::to_vec(payload)
            .map_err(|error| Error::invalid(error.to_string()))?;
        Ok([b"#", &json[..]].concat())
    }

    fn decode(&self, bytes: &[u8], read: PayloadReader<'_>) -> Result<()> {
        let json = bytes.strip_prefix(b"#").ok_or_else(|| Error::invalid("the mark is missing"))?;
        let mut from = punctual::serde_json::Deserializer::from_slice(json);
        read(&mut <dyn erased_serde::Deserializer<'_>>::erase(&mut from))
            .map_err(|error| Error::invalid(error.to_string()))
    }
}

async fn post(log: &Log, build: impl FnOnce(Builder) -> Builder) -> (Bench, Arc<Broker>) {
    let world = world();
    let broker = Broker::new(&world.0, PLAIN);
    let bench = Bench::start_in(world, |builder| {
        let handler = logging::<String>(log, |text, context: &Context| {
            let names: Vec<_> = context.headers().iter().map(|(name, _)| name).collect();
            format!("{} {names:?}", text.len())
        });
        let raw = logging::<Body>(log, |body, _| format!("{} {:?}", body.content_type, body.bytes));
        let builder = builder.transport("post", broker.clone()).handler("mail", handler);
        build(builder.handler("raw", raw).subscribe("post", "mail", "office"))
    })
    .await;
    (bench, broker)
}

#[tokio::test]
async fn a_codec_is_chosen_by_builder_or_publisher_and_found_again_by_content_type() {
    let log = Log::default();
    let (bench, _) = post(&log, |builder| builder.default_codec(PrefixedJson)).await;
    let publisher = bench.punctual.publisher();
    let marked = publisher.publish("mail", "a").await.unwrap();
    let json = publisher.writing("application/json").publish("mail", "ab").via("post");
    json.await.unwrap();
    publisher.publish("mail", "abc").via("post").after(seconds(60)).await.unwrap();
    bench.advance(seconds(60)).await;
    assert_eq!(log.lines(), ["1 []", "2 []", "3 []"]);
    let stored = bench.message(marked.id).await.message.body.clone();
    assert_eq!(stored, Body::raw("#\"a\"", "application/x-marked"));
    let error = publisher.writing("image/png").publish("mail", "x").await.unwrap_err().to_string();
    assert!(error.contains("\"image/png\""), "{error}");
}

#[tokio::test]
async fn a_body_that_no_codec_can_read_is_poison_that_names_it() {
    let log = Log::default();
    let (bench, broker) = post(&log, |builder| builder).await;
    let publisher = bench.punctual.publisher();
    let picture = || Body::raw(vec![0xff, 0xd8], "image/jpeg");
    let stored = publisher.publish_body("mail", picture()).await.unwrap();
    publisher.publish_body("mail", picture()).via("post").await.unwrap();
    publisher.publish_body("raw", picture()).await.unwrap();
    bench.run_until_idle().await;
    let record = bench.message(stored.id).await;
    assert_eq!((record.state, record.dead), (MessageState::Dead, Some(DeadReason::Poison)));
    assert!(record.error.as_deref().unwrap().contains("\"image/jpeg\""), "{:?}", record.error);
    assert_eq!(broker.settlements(), ["reject poison"]);
    assert_eq!(log.lines(), ["image/jpeg b\"\\xff\\xd8\""], "who takes the Body takes any");
}

#[tokio::test]
async fn a_large_body_is_compressed_on_its_way_and_whole_for_every_reader() {
    let log = Log::default();
    let (bench, _) =
        post(&log, |builder| builder.options(|options| options.compress_above_bytes = Some(100)))
            .await;
    let publisher = bench.punctual.publisher();
    let (large, small) = ("tea ".repeat(500), "tea");
    let stored = publisher.publish("mail", &large).header("tenant", "acme").await.unwrap();
    publisher.publish("mail", &large).via("post").await.unwrap();
    publisher.publish("mail", &large).via("post").after(seconds(60)).await.unwrap();
    publisher.publish("mail", small).await.unwrap();
    bench.advance(seconds(60)).await;
    let mut lines = log.lines();
    lines.sort();
    assert_eq!(lines, ["2000 [\"tenant\"]", "2000 []", "2000 []", "3 []"]);
    let stored_record = bench.message(stored.id).await;
    assert!(
        stored_record.message.body.bytes.len() < 100,
        "{}",
        stored_record.message.body.bytes.len()
    );
    let shown = bench.punctual.admin().message(stored.id).await.unwrap().unwrap();
    assert_eq!(shown.message.body, Body::json(&large).unwrap());
}

#[tokio::test]
async fn a_decompression_bomb_is_poison() {
    let (world, log) = (world(), Log::default());
    // The sender may accept larger bodies than the receiver.
    let sender = punctual::Punctual::builder().clock(world.0.clone()).storage(world.1.clone());
    let sender = sender.options(|options| {
        options.compress_above_bytes = Some(0);
        options.payload_max = 10_000_000;
    });
    let sender = sender.build().unwrap();
    let sent = sender.publisher().publish("mail", &" ".repeat(5_000_000)).await.unwrap();
    let bench = Bench::start_in(world, |builder| {
        builder.handler("mail", logging::<String>(&log, |text, _| text.len().to_string()))
    })
    .await;
    let record = bench.message(sent.id).await;
    assert_eq!((record.state, record.dead), (MessageState::Dead, Some(DeadReason::Poison)));
    assert!(record.error.as_deref().unwrap().contains("raise payload_max"), "{:?}", record.error);
    assert_eq!(log.len(), 0);
}
