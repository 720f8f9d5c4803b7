//! Immediate messages: cost of the delay feature for messages without a delay. The same messages are sent with and
//! without a storage that could hold them, in short alternating turns, so that other load affects both.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use async_trait::async_trait;
use jiff::Timestamp;
use punctual::backend::transport::{
    AcknowledgeMode, AttemptCount, Capabilities, Consumer, Delay, Ordering, OutgoingMessage,
    Subscription, Transport,
};
use punctual::model::Body;
use punctual::{Publisher, Punctual};
use tokio::runtime::Runtime;

use super::our_transport::MessageFactory;
use crate::figure::{Figure, percentile};
use crate::rates::BODY;

/// Messages sent in one turn.
const SENDS: u32 = 2_000;
/// Number of turns of each side.
const TURNS: usize = 400;

/// Transport that supports no delay and discards all messages, so that only our own cost is measured.
struct DiscardTransport;

#[async_trait]
impl Transport for DiscardTransport {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            publish_delay: Delay::None,
            requeue_delay: Delay::None,
            dead_letter: false,
            ordering: Ordering::None,
            fan_out: true,
            attempts: AttemptCount::None,
            acknowledge: AcknowledgeMode::Single,
            durable: false,
            payload_max: None,
        }
    }

    async fn publish(&self, batch: Vec<OutgoingMessage>, _now: Timestamp) -> punctual::Result<()> {
        std::hint::black_box(batch);
        Ok(())
    }

    async fn subscribe(&self, _: Subscription) -> punctual::Result<Box<dyn Consumer>> {
        Err(punctual::Error::unsupported("this transport delivers nothing"))
    }
}

pub(super) fn measure(runtime: &Runtime) -> Result<Vec<Figure>> {
    runtime.block_on(async {
        let without_storage =
            Punctual::builder().without_storage().transport("out", Arc::new(DiscardTransport));
        let without_storage = without_storage.via_default("out").build()?.publisher();
        let with_storage = Punctual::builder().transport("out", Arc::new(DiscardTransport));
        let with_storage = with_storage.via_default("out").build()?.publisher();
        let mut turns = TurnTimes::default();
        for turn in 0..TURNS {
            // Each side goes first equally often.
            for which in [turn % 2, 1 - turn % 2] {
                let publisher = if which == 0 { &without_storage } else { &with_storage };
                turns.record(which, time_publisher(publisher).await?);
            }
        }
        let mut direct = TurnTimes::default();
        let factory = MessageFactory::new("tick")?;
        for turn in 0..TURNS {
            for which in [turn % 2, 1 - turn % 2] {
                let took = if which == 0 {
                    time_transport(&DiscardTransport, &factory).await?
                } else {
                    time_publisher(&without_storage).await?
                };
                direct.record(which, took);
            }
        }
        Ok(vec![
            turns.figure("immediate: with a storage that could hold, over without one"),
            direct.added("immediate: a publisher, over calling the transport"),
        ])
    })
}

/// Publishes one turn of messages; returns the average time of one, in nanoseconds.
async fn time_publisher(publisher: &Publisher) -> Result<f64> {
    let body = Body::raw(&BODY[..], "application/json");
    let start = Instant::now();
    for _ in 0..SENDS {
        publisher.publish_body("tick", body.clone()).await?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e9 / f64::from(SENDS))
}

/// Sends one turn of messages without a publisher; returns the average time of one, in nanoseconds.
async fn time_transport(transport: &dyn Transport, factory: &MessageFactory) -> Result<f64> {
    let start = Instant::now();
    for _ in 0..SENDS {
        let now = Timestamp::now();
        transport.publish(vec![factory.outgoing(now)], now).await?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e9 / f64::from(SENDS))
}

/// Times of two alternatives, turn by turn, in nanoseconds.
#[derive(Default)]
struct TurnTimes([Vec<f64>; 2]);

impl TurnTimes {
    fn record(&mut self, which: usize, nanoseconds: f64) {
        self.0[which].push(nanoseconds);
    }

    fn medians(&self) -> [f64; 2] {
        self.0.clone().map(|mut turns| {
            turns.sort_by(f64::total_cmp);
            percentile(&turns, 50)
        })
    }

    /// Returns the additional time of the second alternative in percent, each turn compared with its neighbour.
    fn figure(&self, name: &str) -> Figure {
        let [first, second] = &self.0;
        let mut more: Vec<f64> =
            first.iter().zip(second).map(|(one, other)| 100.0 * (other / one - 1.0)).collect();
        more.sort_by(f64::total_cmp);
        let [one, other] = self.medians();
        Figure {
            name: name.to_owned(),
            value: percentile(&more, 50),
            unit: "% more",
            target: "within 3",
            how: format!(
                "{other:.0} over {one:.0} ns a message, {TURNS} turns of {SENDS} each, median of neighbours"
            ),
        }
    }

    fn added(&self, name: &str) -> Figure {
        let [one, other] = self.medians();
        Figure {
            name: name.to_owned(),
            value: other - one,
            unit: "ns",
            target: "",
            how: format!(
                "{other:.0} over {one:.0} ns a message through a transport that does nothing, {TURNS} turns of {SENDS} each"
            ),
        }
    }
}
