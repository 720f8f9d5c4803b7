//! Comparison of two clients of one broker: the bare client and our transport alternate, so that other load on the
//! machine affects both.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use punctual::model::{IdSource as _, Ids};

use super::BATCH;
use crate::figure::{Figure, percentile};
use crate::rates::{BODY, REPETITIONS, Rates, float};

/// Longest time of one round trip; a client that hangs fails the run.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Client that sends messages with [`BODY`](crate::rates::BODY) through a broker and receives them.
pub(super) trait BenchClient: Send {
    /// Returns the name of the client in figures.
    fn label(&self) -> &'static str {
        "bare client"
    }

    /// Returns a description of its work for each message.
    fn how(&self) -> &'static str;

    /// Publishes `count` messages and waits for their confirmations.
    fn publish(&mut self, count: usize) -> impl Future<Output = Result<()>> + Send;

    /// Receives and acknowledges at most `limit` messages; returns their number.
    fn consume(&mut self, limit: usize) -> impl Future<Output = Result<usize>> + Send;

    /// Deletes its topics and queues on the broker, where possible.
    fn close(self) -> impl Future<Output = Result<()>> + Send;
}

/// Names on the broker, unique to this run.
pub(super) struct Names {
    pub(super) prefix: String,
}

impl Names {
    pub(super) fn new() -> Self {
        Self { prefix: format!("bench-{}", Ids::random().next(Timestamp::now()).simple()) }
    }

    /// Returns the topic or queue of the bare client.
    pub(super) fn bare(&self) -> String {
        format!("{}-bare", self.prefix)
    }
}

/// Rates of one client for each run: publish, consume, and both together.
#[derive(Default)]
struct ClientRates([Vec<f64>; 3]);

impl ClientRates {
    fn figure(&self, name: &str, how: &str) -> Figure {
        let mut rates = Rates::default();
        self.0[BOTH].iter().for_each(|rate| rates.push(*rate));
        rates.figure(name, how)
    }

    /// Returns the ratio to another client, run by run, in percent.
    fn of(&self, other: &Self, part: usize, name: String, target: &'static str) -> Figure {
        let runs = self.0[part].iter().zip(&other.0[part]);
        let mut shares: Vec<f64> = runs.map(|(ours, bare)| 100.0 * ours / bare).collect();
        shares.sort_by(f64::total_cmp);
        let (least, most) = (percentile(&shares, 0), percentile(&shares, 100));
        let (ours, bare) = (&self.0[part], &other.0[part]);
        let how = format!(
            "median of runs from {least:.0} to {most:.0} %; {ours:.0?} of {bare:.0?} messages/s"
        );
        Figure { name, value: percentile(&shares, 50), unit: "%", target, how }
    }
}

const PUBLISH: usize = 0;
const CONSUME: usize = 1;
const BOTH: usize = 2;

/// Measures bare clients and ours alternately. The target is a ratio to the first bare client; others are only shown.
pub(super) async fn compare<Bare: BenchClient, Our: BenchClient>(
    name: &'static str,
    mut bares: Vec<Bare>,
    mut ours: Our,
    messages: usize,
) -> Result<Vec<Figure>> {
    let mut of_bares: Vec<ClientRates> = bares.iter().map(|_| ClientRates::default()).collect();
    let mut of_ours = ClientRates::default();
    // Warm-up: opens connections, fills caches and creates the broker's files.
    let first = messages.min(BATCH * 4);
    for bare in &mut bares {
        round_trip(bare, first, &mut ClientRates::default()).await.context("the bare client")?;
    }
    round_trip(&mut ours, first, &mut ClientRates::default()).await.context("our transport")?;
    for _ in 0..REPETITIONS {
        for (bare, of_bare) in bares.iter_mut().zip(&mut of_bares) {
            round_trip(bare, messages, of_bare).await.context("the bare client")?;
        }
        round_trip(&mut ours, messages, &mut of_ours).await.context("our transport")?;
    }
    let how = |what: &str| {
        format!("{messages} messages of {} bytes, {BATCH} at once; {what}", BODY.len())
    };
    let mut figures = Vec::new();
    for (bare, of_bare) in bares.iter().zip(&of_bares) {
        let label = bare.label();
        figures.push(of_bare.figure(&format!("{name}: {label}"), &how(bare.how())));
    }
    figures.push(of_ours.figure(&format!("{name}: {}", ours.label()), &how(ours.how())));
    for (index, (bare, of_bare)) in bares.iter().zip(&of_bares).enumerate() {
        let part = |what: &str| format!("{name}: {what} of {}", bare.label());
        if index == 0 {
            figures.push(of_ours.of(of_bare, PUBLISH, part("publish"), ""));
            figures.push(of_ours.of(of_bare, CONSUME, part("receive and acknowledge"), ""));
        }
        let target = if index == 0 { "at least 70" } else { "" };
        figures.push(of_ours.of(of_bare, BOTH, part("both together"), target));
    }
    for bare in bares {
        bare.close().await?;
    }
    ours.close().await?;
    Ok(figures)
}

/// Publishes messages, then receives all of them, and records the rates.
async fn round_trip(
    client: &mut impl BenchClient,
    messages: usize,
    measured: &mut ClientRates,
) -> Result<()> {
    let bounded = tokio::time::timeout(TIMEOUT, timed_round_trip(client, messages));
    let (published, consumed) =
        bounded.await.with_context(|| format!("not done within {TIMEOUT:?}"))??;
    for (rates, took) in measured.0.iter_mut().zip([published, consumed, published + consumed]) {
        rates.push(float(messages) / took.as_secs_f64());
    }
    Ok(())
}

async fn timed_round_trip(
    client: &mut impl BenchClient,
    messages: usize,
) -> Result<(Duration, Duration)> {
    let start = Instant::now();
    for first in (0..messages).step_by(BATCH) {
        client.publish(BATCH.min(messages - first)).await.context("publish")?;
    }
    let published = start.elapsed();
    let start = Instant::now();
    let mut left = messages;
    while left > 0 {
        let count = client.consume(BATCH.min(left)).await.context("receive")?;
        left = left.checked_sub(count).context("more messages were received than sent")?;
    }
    Ok((published, start.elapsed()))
}
