//! A way through a broker, and two of them side by side: the bare client and our transport take turns,
//! so that whatever else the machine does hits both.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use punctual::model::{IdSource as _, Ids};

use super::BATCH;
use crate::figure::{Figure, percentile};
use crate::rates::{BODY, REPETITIONS, Rates, float};

/// Nothing takes longer: a carrier that hangs fails the run instead of hanging it.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Carries messages with [`BODY`](crate::rates::BODY) through a broker.
pub(super) trait Carrier: Send {
    /// Who carries.
    fn label(&self) -> &'static str {
        "bare client"
    }

    /// What it does for each message, in words.
    fn how(&self) -> &'static str;

    /// Sends so many messages; they are confirmed when it returns.
    fn publish(&mut self, count: usize) -> impl Future<Output = Result<()>> + Send;

    /// Receives at most so many messages and acknowledges them; answers how many.
    fn consume(&mut self, limit: usize) -> impl Future<Output = Result<usize>> + Send;

    /// Removes what it made on the broker, where it can.
    fn close(self) -> impl Future<Output = Result<()>> + Send;
}

/// Names on the broker that no other run has.
pub(super) struct Names {
    pub(super) prefix: String,
}

impl Names {
    pub(super) fn new() -> Self {
        Self { prefix: format!("bench-{}", Ids::random().next(Timestamp::now()).simple()) }
    }

    /// Where the bare client keeps its messages.
    pub(super) fn bare(&self) -> String {
        format!("{}-bare", self.prefix)
    }
}

/// The rates of one carrier: publishing, receiving, and both together, run by run.
#[derive(Default)]
struct Measured([Vec<f64>; 3]);

impl Measured {
    fn figure(&self, name: &str, how: &str) -> Figure {
        let mut rates = Rates::default();
        self.0[BOTH].iter().for_each(|rate| rates.push(*rate));
        rates.figure(name, how)
    }

    /// How it compares with another, run by run, in percent.
    fn of(&self, other: &Self, part: usize, name: String, asked: &'static str) -> Figure {
        let runs = self.0[part].iter().zip(&other.0[part]);
        let mut shares: Vec<f64> = runs.map(|(ours, bare)| 100.0 * ours / bare).collect();
        shares.sort_by(f64::total_cmp);
        let (least, most) = (percentile(&shares, 0), percentile(&shares, 100));
        let (ours, bare) = (&self.0[part], &other.0[part]);
        let how = format!(
            "median of runs from {least:.0} to {most:.0} %; {ours:.0?} of {bare:.0?} messages/s"
        );
        Figure { name, value: percentile(&shares, 50), unit: "%", asked, how }
    }
}

const PUBLISH: usize = 0;
const CONSUME: usize = 1;
const BOTH: usize = 2;

/// Measures bare clients and ours in turns. Ours is to reach its share of the first; others are shown.
pub(super) async fn compare<Bare: Carrier, Our: Carrier>(
    name: &'static str,
    mut bares: Vec<Bare>,
    mut ours: Our,
    messages: usize,
) -> Result<Vec<Figure>> {
    let mut of_bares: Vec<Measured> = bares.iter().map(|_| Measured::default()).collect();
    let mut of_ours = Measured::default();
    // Unmeasured: connections, caches and the broker's files are there afterwards.
    let first = messages.min(BATCH * 4);
    for bare in &mut bares {
        trip(bare, first, &mut Measured::default()).await.context("the bare client")?;
    }
    trip(&mut ours, first, &mut Measured::default()).await.context("our transport")?;
    for _ in 0..REPETITIONS {
        for (bare, of_bare) in bares.iter_mut().zip(&mut of_bares) {
            trip(bare, messages, of_bare).await.context("the bare client")?;
        }
        trip(&mut ours, messages, &mut of_ours).await.context("our transport")?;
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
        let asked = if index == 0 { "at least 70" } else { "" };
        figures.push(of_ours.of(of_bare, BOTH, part("both together"), asked));
    }
    for bare in bares {
        bare.close().await?;
    }
    ours.close().await?;
    Ok(figures)
}

/// Publishes messages, then receives all of them.
async fn trip(carrier: &mut impl Carrier, messages: usize, measured: &mut Measured) -> Result<()> {
    let bounded = tokio::time::timeout(TIMEOUT, timed(carrier, messages));
    let (published, consumed) =
        bounded.await.with_context(|| format!("not done within {TIMEOUT:?}"))??;
    for (rates, took) in measured.0.iter_mut().zip([published, consumed, published + consumed]) {
        rates.push(float(messages) / took.as_secs_f64());
    }
    Ok(())
}

async fn timed(carrier: &mut impl Carrier, messages: usize) -> Result<(Duration, Duration)> {
    let start = Instant::now();
    for first in (0..messages).step_by(BATCH) {
        carrier.publish(BATCH.min(messages - first)).await.context("publish")?;
    }
    let published = start.elapsed();
    let start = Instant::now();
    let mut left = messages;
    while left > 0 {
        let count = carrier.consume(BATCH.min(left)).await.context("receive")?;
        left = left.checked_sub(count).context("more came than was sent")?;
    }
    Ok((published, start.elapsed()))
}
