//! Suite of the transports: messages through a whole process in memory, the cost of the delay feature for immediate
//! messages, and each broker compared with its bare client in the same run: rates depend on the machine, ratios much
//! less.

mod comparison;
mod immediate;
#[cfg(feature = "kafka")]
mod kafka_raw;
mod memory;
mod mqtt_raw;
mod nats_raw;
mod our_transport;
mod rabbitmq_raw;
mod redis_raw;
#[cfg(feature = "servicebus")]
mod servicebus_raw;
#[cfg(feature = "sqs")]
mod sqs_raw;

use anyhow::{Context as _, Result};
use punctual_mqtt::MqttTransport;
use punctual_nats::NatsTransport;
use punctual_rabbitmq::RabbitmqTransport;
use punctual_redis::RedisTransport;
use tokio::runtime::Runtime;

use self::comparison::{Names, compare};
use self::our_transport::OurTransport;
use crate::figure::{Figure, SkippedPart};

/// Messages in one publish call, and the limit of one receive call, on both sides.
const BATCH: usize = 500;

/// Part of the suite that needs a broker.
struct Part {
    name: &'static str,
    /// Environment variable with the address of its server; none when it runs in this process.
    variable: Option<&'static str>,
    /// Whether its cargo feature is enabled.
    is_built: bool,
    /// Default number of messages.
    messages: usize,
}

const fn part(name: &'static str, variable: Option<&'static str>) -> Part {
    Part { name, variable, is_built: true, messages: 100_000 }
}

const BROKERS: [Part; 7] = [
    part("redis", Some("PUNCTUAL_REDIS_URL")),
    // NATS waits for the disk with each message.
    Part { messages: 20_000, ..part("nats", Some("PUNCTUAL_NATS_URL")) },
    part("rabbitmq", Some("PUNCTUAL_RABBITMQ_URL")),
    part("mqtt", Some("PUNCTUAL_MQTT_URL")),
    // The cluster inside the client library keeps the last five megabytes of a partition.
    Part { is_built: cfg!(feature = "kafka"), messages: 40_000, ..part("kafka", None) },
    Part { is_built: cfg!(feature = "servicebus"), messages: 20_000, ..part("servicebus", None) },
    // The emulator takes a hundred messages a second, and fewer the more it holds.
    Part {
        is_built: cfg!(feature = "sqs"),
        messages: 300,
        ..part("sqs", Some("PUNCTUAL_SQS_URL"))
    },
];

impl Part {
    /// Returns the server address, empty when it runs in this process, or the reason why the part cannot be measured.
    fn address(&self) -> Result<String, String> {
        let Self { name, variable, .. } = self;
        if !self.is_built {
            return Err(format!(
                "built without the feature `{name}`; `cargo xtask bench transport` builds it unless it is left out"
            ));
        }
        let Some(variable) = variable else { return Ok(String::new()) };
        let address = std::env::var(variable).ok().filter(|url| !url.is_empty());
        address.ok_or_else(|| {
            format!("{variable} names no server; `cargo xtask bench transport` starts one unless it is left out")
        })
    }
}

/// Measures every available transport; also returns the parts that could not be measured.
pub(crate) fn run(
    only: Option<&str>,
    messages: Option<usize>,
) -> Result<(Vec<Figure>, Vec<SkippedPart>)> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let wanted = |part: &str| only.is_none_or(|only| only == part);
    let (mut figures, mut skipped) = (Vec::new(), Vec::new());
    if wanted("memory") {
        figures.push(memory::measure(&runtime, messages.unwrap_or(1_000_000))?);
    }
    if wanted("immediate") {
        figures.extend(immediate::measure(&runtime)?);
    }
    for part in BROKERS.iter().filter(|part| wanted(part.name)) {
        let name = part.name;
        match part.address() {
            Ok(url) => {
                let broker = Broker { name, url, messages: messages.unwrap_or(part.messages) };
                let measured = broker.measure(&runtime);
                figures.extend(measured.with_context(|| format!("measure {name}"))?);
            }
            Err(why) => skipped.push(SkippedPart { name, why }),
        }
    }
    let parts: Vec<&str> = BROKERS.iter().map(|part| part.name).collect();
    anyhow::ensure!(
        !figures.is_empty() || !skipped.is_empty(),
        "there is no part {only:?}; the parts are memory, immediate, {}",
        parts.join(", ")
    );
    Ok((figures, skipped))
}

/// Broker to measure.
struct Broker {
    name: &'static str,
    url: String,
    messages: usize,
}

impl Broker {
    /// Measures in a spawned task like the engine's services, on the same worker threads as the client's tasks.
    fn measure(self, runtime: &Runtime) -> Result<Vec<Figure>> {
        runtime.block_on(runtime.spawn(self.compare_clients()))?
    }

    async fn compare_clients(self) -> Result<Vec<Figure>> {
        let Self { name, url, messages } = self;
        let names = Names::new();
        match name {
            "redis" => {
                let transport = RedisTransport::builder(&url).prefix(&names.prefix);
                let our_transport = OurTransport::open(transport.connect().await?).await?;
                let bares = redis_raw::BareClient::both(&url, &names).await?;
                compare(name, bares, our_transport, messages).await
            }
            "nats" => {
                let transport = NatsTransport::builder(&url).prefix(&names.prefix);
                let our_transport = OurTransport::open(transport.connect().await?).await?;
                let bare = nats_raw::BareClient::open(&url, &names).await?;
                compare(name, vec![bare], our_transport, messages).await
            }
            "rabbitmq" => {
                let transport = RabbitmqTransport::builder(&url).prefix(&names.prefix);
                let our_transport = OurTransport::open(transport.connect().await?).await?;
                let bare = rabbitmq_raw::BareClient::open(&url, &names).await?;
                compare(name, vec![bare], our_transport, messages).await
            }
            "mqtt" => {
                let transport = MqttTransport::builder(&url).prefix(&names.prefix);
                let our_transport = OurTransport::open(transport.connect().await?).await?;
                let bare = mqtt_raw::BareClient::open(&url, &names).await?;
                compare(name, vec![bare], our_transport, messages).await
            }
            #[cfg(feature = "kafka")]
            "kafka" => {
                let cluster = kafka_raw::Cluster::start(&names)?;
                let our_transport =
                    OurTransport::open(cluster.our_transport(&names).connect().await?).await?;
                let bare = kafka_raw::BareClient::open(&cluster, &names)?;
                compare(name, vec![bare], our_transport, messages).await
            }
            #[cfg(feature = "servicebus")]
            "servicebus" => {
                let double = servicebus_raw::start().await?;
                let transport = punctual_servicebus::ServiceBusTransport::builder(double.address());
                let transport = transport.prefix(&names.prefix);
                let our_transport = OurTransport::open(transport.connect().await?).await?;
                let bare = servicebus_raw::BareClient::open(&double, &names).await?;
                compare(name, vec![bare], our_transport, messages).await
            }
            #[cfg(feature = "sqs")]
            "sqs" => {
                let transport = punctual_sqs::SqsTransport::builder(&url).prefix(&names.prefix);
                let our_transport = OurTransport::open(transport.connect().await?).await?;
                let bare = sqs_raw::BareClient::open(&url, &names).await?;
                compare(name, vec![bare], our_transport, messages).await
            }
            other => anyhow::bail!("there is no bare client for {other}"),
        }
    }
}
