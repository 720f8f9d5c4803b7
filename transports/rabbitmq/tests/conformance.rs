//! Conformance suite of all transports: each case has its own prefix on the broker and its own proxy to it.

use std::process::ExitCode;
use std::sync::Arc;

use lapin::options::{
    BasicGetOptions, BasicPublishOptions, ExchangeDeleteOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use punctual::backend::wire::Wire;
use punctual::model::Topic;
use punctual::{Error, Result, Transport};
use punctual_conformance::backend_tests::{Proxy, unique_name};
use punctual_conformance::transport::{self, Backend, Environment, Need};
use punctual_rabbitmq::RabbitmqTransport;

/// Most dead letters that are read.
const LETTERS_MAX: usize = 1_000;

struct BrokerFixture {
    address: String,
    prefix: String,
    proxy: Proxy,
}

impl BrokerFixture {
    /// Runs a call on the broker as a client without Punctual.
    async fn raw_call<T, Done>(&self, act: impl FnOnce(Channel) -> Done) -> Result<T>
    where
        Done: Future<Output = lapin::Result<T>>,
    {
        let work = async {
            let properties = ConnectionProperties::default();
            let connection = Connection::connect(&self.address, properties).await?;
            let channel = connection.create_channel().await?;
            let done = act(channel.clone()).await;
            // Messages that were read return to their queue with the channel.
            let _ = channel.close(200, "".into()).await;
            done
        };
        work.await.map_err(|error| Error::internal(error.to_string()))
    }

    /// Returns the messages of a queue, and leaves them there.
    async fn messages_in(&self, queue: String) -> Result<Vec<Wire>> {
        let found = self.raw_call(|channel| async move {
            let mut letters = Vec::new();
            for _ in 0..LETTERS_MAX {
                match channel.basic_get(queue.as_str().into(), BasicGetOptions::default()).await {
                    Ok(Some(letter)) => letters.push(wire(&letter.properties, letter.data.clone())),
                    Ok(None) => break,
                    // The queue does not exist, or is just being declared.
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
impl Environment for BrokerFixture {
    async fn open(&self) -> Result<Arc<dyn Transport>> {
        let builder = RabbitmqTransport::builder(self.proxy.address()).prefix(&self.prefix);
        Ok(Arc::new(builder.connect().await?))
    }

    async fn publish_foreign(
        &self,
        topic: &Topic,
        body: &[u8],
        headers: &[(&str, &str)],
    ) -> Result<()> {
        let exchange = format!("{}{topic}", self.prefix);
        let mut table = FieldTable::default();
        for (name, value) in headers {
            table.insert((*name).into(), AMQPValue::LongString((*value).into()));
        }
        // A queue has no positions: only a message with an id of its sender is recognized.
        let id = format!("stranger-{}", unique_name());
        let properties = BasicProperties::default().with_headers(table).with_message_id(id.into());
        let put = self.raw_call(|channel| async move {
            let options = BasicPublishOptions::default();
            let sent = channel.basic_publish(exchange.into(), "".into(), options, body, properties);
            sent.await?.await.map(|_| ())
        });
        put.await
    }

    async fn dead(&self, topic: &Topic, group: &str) -> Result<Vec<Wire>> {
        self.messages_in(format!("{}{topic}.{group}.dead", self.prefix)).await
    }

    async fn invalid(&self, topic: &Topic, group: &str) -> Result<Vec<Wire>> {
        self.messages_in(format!("{}{topic}.{group}.invalid", self.prefix)).await
    }

    fn proxy(&self) -> Option<&Proxy> {
        Some(&self.proxy)
    }

    /// Removes the queues and exchanges of the suite; delay queues expire.
    async fn remove(&self) -> Result<()> {
        let prefix = &self.prefix;
        let removed = self.raw_call(|channel| async move {
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
        let prefix = format!("conformance-{}.", unique_name());
        let proxy = Proxy::to(&address).await;
        Ok(BrokerFixture { address, prefix, proxy })
    });
    let reason = "other cases use the same broker; tests/it restarts a separate one";
    transport::run("rabbitmq", backend.cannot(Need::Restart, reason))
}
