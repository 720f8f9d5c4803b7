//! The suite of all transports, each case under a prefix of its own and behind a door of its own.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lapin::options::{
    BasicGetOptions, BasicPublishOptions, ExchangeDeleteOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use punctual::model::Topic;
use punctual::wire::Wire;
use punctual::{Error, Result, Transport};
use punctual_conformance::own::Proxy;
use punctual_conformance::transport::{self, Backend, Need, Place};
use punctual_rabbitmq::RabbitmqTransport;

static NEXT: AtomicU64 = AtomicU64::new(0);
/// The most letters that are looked at.
const LETTERS_MAX: usize = 1_000;

struct Corner {
    address: String,
    prefix: String,
    proxy: Proxy,
}

impl Corner {
    /// Does something on the broker itself, as a client that knows nothing of Punctual.
    async fn outside<T, Done>(&self, act: impl FnOnce(Channel) -> Done) -> Result<T>
    where
        Done: Future<Output = lapin::Result<T>>,
    {
        let work = async {
            let properties = ConnectionProperties::default();
            let connection = Connection::connect(&self.address, properties).await?;
            let channel = connection.create_channel().await?;
            let done = act(channel.clone()).await;
            // What was looked at goes back into its queue with the channel.
            let _ = channel.close(200, "".into()).await;
            done
        };
        work.await.map_err(|error| Error::internal(error.to_string()))
    }

    /// What lies in a queue; it stays there.
    async fn letters_in(&self, queue: String) -> Result<Vec<Wire>> {
        let found = self.outside(|channel| async move {
            let mut letters = Vec::new();
            for _ in 0..LETTERS_MAX {
                match channel.basic_get(queue.as_str().into(), BasicGetOptions::default()).await {
                    Ok(Some(letter)) => letters.push(wire(&letter.properties, letter.data.clone())),
                    Ok(None) => break,
                    // Nothing was ever put there, or the queue is just being made.
                    Err(error) if error.is_amqp_error() => break,
                    Err(error) => return Err(error),
                }
            }
            Ok(letters)
        });
        found.await
    }
}

fn wire(properties: &BasicProperties, body: Vec<u8>) -> Wire {
    let headers = properties.headers().as_ref().map(FieldTable::inner).into_iter().flatten();
    let headers = headers.filter_map(|(name, value)| match value {
        AMQPValue::LongString(text) => Some((name.to_string().into(), text.to_string())),
        _ => None,
    });
    let content_type = properties.content_type().as_ref().map(ToString::to_string);
    Wire {
        headers: headers.collect(),
        body: body.into(),
        content_type: content_type.unwrap_or_default().into(),
    }
}

#[async_trait::async_trait]
impl Place for Corner {
    async fn open(&self) -> Result<Arc<dyn Transport>> {
        let builder = RabbitmqTransport::builder(self.proxy.address()).prefix(&self.prefix);
        Ok(Arc::new(builder.connect().await?))
    }

    async fn put(&self, topic: &Topic, body: &[u8], headers: &[(&str, &str)]) -> Result<()> {
        let exchange = format!("{}{topic}", self.prefix);
        let mut table = FieldTable::default();
        for (name, value) in headers {
            table.insert((*name).into(), AMQPValue::LongString((*value).into()));
        }
        // A queue has no places: only a message that its sender has named is known again.
        let id = format!("stranger-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let properties = BasicProperties::default().with_headers(table).with_message_id(id.into());
        let put = self.outside(|channel| async move {
            let options = BasicPublishOptions::default();
            let sent = channel.basic_publish(exchange.into(), "".into(), options, body, properties);
            sent.await?.await.map(|_| ())
        });
        put.await
    }

    async fn dead(&self, topic: &Topic, group: &str) -> Result<Vec<Wire>> {
        self.letters_in(format!("{}{topic}.{group}.dead", self.prefix)).await
    }

    async fn invalid(&self, topic: &Topic, group: &str) -> Result<Vec<Wire>> {
        self.letters_in(format!("{}{topic}.{group}.invalid", self.prefix)).await
    }

    async fn cut(&self) -> Result<()> {
        self.proxy.cut();
        self.proxy.mend();
        Ok(())
    }

    /// Takes away what the suite makes; queues of delays go by themselves.
    async fn remove(&self) -> Result<()> {
        let prefix = &self.prefix;
        let removed = self.outside(|channel| async move {
            for topic in ["mail", "mail.sent"] {
                for group in ["office", "archive"] {
                    for rest in ["", ".dead", ".invalid"] {
                        let queue = format!("{prefix}{topic}.{group}{rest}");
                        let options = QueueDeleteOptions::default();
                        channel.queue_delete(queue.into(), options).await?;
                    }
                }
                let (exchange, options) =
                    (format!("{prefix}{topic}"), ExchangeDeleteOptions::default());
                channel.exchange_delete(exchange.into(), options).await?;
            }
            Ok(())
        });
        removed.await
    }
}

fn main() -> ExitCode {
    let backend = Backend::at("PUNCTUAL_RABBITMQ_URL", |address| async move {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("conformance-{}-{number}.", std::process::id());
        let proxy = Proxy::to(&address).await;
        Ok(Corner { address, prefix, proxy })
    });
    let reason = "other cases use the same broker; tests/it restarts one of its own";
    transport::run("rabbitmq", backend.cannot(Need::Restart, reason))
}
