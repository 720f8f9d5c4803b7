//! The transports: messages through a whole process in memory, what delays cost those that are not
//! delayed, and each broker beside its bare client in the same run: rates depend on the machine, ratios
//! much less.

mod carrier;
mod immediate;
mod memory;
mod nats_raw;
mod ours;
mod rabbitmq_raw;
mod redis_raw;

use anyhow::{Context as _, Result};
use punctual_nats::NatsTransport;
use punctual_rabbitmq::RabbitmqTransport;
use punctual_redis::RedisTransport;
use tokio::runtime::Runtime;

use self::carrier::{Names, compare};
use self::ours::Ours;
use crate::figure::Figure;

/// Messages in one call to publish, and the most in one call to receive; the bare clients as well.
const BATCH: usize = 500;

/// The parts that need a server, and the variable that says where it is.
const BROKERS: [(&str, &str); 3] = [
    ("redis", "PUNCTUAL_REDIS_URL"),
    ("nats", "PUNCTUAL_NATS_URL"),
    ("rabbitmq", "PUNCTUAL_RABBITMQ_URL"),
];

/// Measures every transport that is there.
pub(crate) fn run(only: Option<&str>, messages: Option<usize>) -> Result<Vec<Figure>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let wanted = |part: &str| only.is_none_or(|only| only == part);
    let mut figures = Vec::new();
    if wanted("memory") {
        figures.push(memory::measure(&runtime, messages.unwrap_or(1_000_000))?);
    }
    if wanted("immediate") {
        figures.extend(immediate::measure(&runtime)?);
    }
    for (name, variable) in BROKERS.into_iter().filter(|(name, _)| wanted(name)) {
        match std::env::var(variable) {
            Ok(url) if !url.is_empty() => {
                let broker = Broker { name, url, messages: messages.unwrap_or(100_000) };
                let measured = broker.measure(&runtime);
                figures.extend(measured.with_context(|| format!("measure {name}"))?);
            }
            _ => println!(
                "{name} is NOT measured: {variable} names no server; `cargo xtask bench transport` starts one"
            ),
        }
    }
    let parts: Vec<&str> = BROKERS.iter().map(|(name, _)| *name).collect();
    anyhow::ensure!(
        !figures.is_empty(),
        "nothing was measured; the parts are memory, immediate, {}",
        parts.join(", ")
    );
    Ok(figures)
}

/// A broker to measure.
struct Broker {
    name: &'static str,
    url: String,
    messages: usize,
}

impl Broker {
    /// In a task, as the engine's services are: there the client's own tasks are next door.
    fn measure(self, runtime: &Runtime) -> Result<Vec<Figure>> {
        runtime.block_on(runtime.spawn(self.compared()))?
    }

    async fn compared(self) -> Result<Vec<Figure>> {
        let Self { name, url, messages } = self;
        let names = Names::new();
        match name {
            "redis" => {
                let transport = RedisTransport::builder(&url).prefix(&names.prefix);
                let ours = Ours::open(transport.connect().await?).await?;
                compare(name, redis_raw::Bare::open(&url, &names).await?, ours, messages).await
            }
            "nats" => {
                let transport = NatsTransport::builder(&url).prefix(&names.prefix);
                let ours = Ours::open(transport.connect().await?).await?;
                compare(name, nats_raw::Bare::open(&url, &names).await?, ours, messages).await
            }
            "rabbitmq" => {
                let transport = RabbitmqTransport::builder(&url).prefix(&names.prefix);
                let ours = Ours::open(transport.connect().await?).await?;
                compare(name, rabbitmq_raw::Bare::open(&url, &names).await?, ours, messages).await
            }
            other => anyhow::bail!("there is no bare client for {other}"),
        }
    }
}
