//! What the delay feature costs messages that are not delayed: the same sends with and without what could
//! hold them, in small turns, so that whatever else the machine does hits both.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use async_trait::async_trait;
use jiff::Timestamp;
use punctual::model::Body;
use punctual::transport::{
    AcknowledgeMode, AttemptCount, Capabilities, Consumer, Delay, Ordering, Outgoing, Subscription,
    Transport,
};
use punctual::{Publisher, Punctual};
use tokio::runtime::Runtime;

use super::ours::Maker;
use crate::figure::{Figure, percentile};
use crate::rates::BODY;

/// Sends in one turn.
const SENDS: u32 = 2_000;
/// Turns of each.
const TURNS: usize = 400;

/// A transport that cannot delay and does nothing else: whatever is measured is ours.
struct Nowhere;

#[async_trait]
impl Transport for Nowhere {
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

    async fn publish(&self, batch: Vec<Outgoing>, _now: Timestamp) -> punctual::Result<()> {
        std::hint::black_box(batch);
        Ok(())
    }

    async fn subscribe(&self, _: Subscription) -> punctual::Result<Box<dyn Consumer>> {
        Err(punctual::Error::unsupported("nothing comes from here"))
    }
}

pub(super) fn measure(runtime: &Runtime) -> Result<Vec<Figure>> {
    runtime.block_on(async {
        let plain = Punctual::builder().without_storage().transport("out", Arc::new(Nowhere));
        let plain = plain.via_default("out").build()?.publisher();
        let holding = Punctual::builder().transport("out", Arc::new(Nowhere));
        let holding = holding.via_default("out").build()?.publisher();
        let mut turns = Turns::default();
        for turn in 0..TURNS {
            // Each begins as often as the other.
            for which in [turn % 2, 1 - turn % 2] {
                let publisher = if which == 0 { &plain } else { &holding };
                turns.note(which, published(publisher).await?);
            }
        }
        let mut direct = Turns::default();
        let maker = Maker::new("tick")?;
        for turn in 0..TURNS {
            for which in [turn % 2, 1 - turn % 2] {
                let took = if which == 0 {
                    sent(&Nowhere, &maker).await?
                } else {
                    published(&plain).await?
                };
                direct.note(which, took);
            }
        }
        Ok(vec![
            turns.figure("immediate: with a storage that could hold, over without one"),
            direct.added("immediate: a publisher, over calling the transport"),
        ])
    })
}

/// Nanoseconds of one publish, on average of a turn.
async fn published(publisher: &Publisher) -> Result<f64> {
    let body = Body::raw(&BODY[..], "application/json");
    let start = Instant::now();
    for _ in 0..SENDS {
        publisher.publish_body("tick", body.clone()).await?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e9 / f64::from(SENDS))
}

/// The same without a publisher: the message is made by hand.
async fn sent(transport: &dyn Transport, maker: &Maker) -> Result<f64> {
    let start = Instant::now();
    for _ in 0..SENDS {
        let now = Timestamp::now();
        transport.publish(vec![maker.outgoing(now)], now).await?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e9 / f64::from(SENDS))
}

/// What two things took, turn by turn.
#[derive(Default)]
struct Turns([Vec<f64>; 2]);

impl Turns {
    fn note(&mut self, which: usize, nanoseconds: f64) {
        self.0[which].push(nanoseconds);
    }

    fn medians(&self) -> [f64; 2] {
        self.0.clone().map(|mut turns| {
            turns.sort_by(f64::total_cmp);
            percentile(&turns, 50)
        })
    }

    /// How much more the second takes than the first, each turn compared with its neighbour.
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
            asked: "within 3",
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
            asked: "",
            how: format!(
                "{other:.0} over {one:.0} ns a message through a transport that does nothing, {TURNS} turns of {SENDS} each"
            ),
        }
    }
}
