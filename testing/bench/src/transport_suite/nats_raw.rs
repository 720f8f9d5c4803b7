//! Bare client of NATS: a stream on disk, a durable pull consumer, and unconfirmed acknowledgements as in our
//! transport.

use std::future::IntoFuture as _;

use anyhow::{Context as _, Result};
use async_nats::jetstream::consumer::{PullConsumer, pull};
use async_nats::jetstream::{self, stream};
use bytes::Bytes;
use futures_util::StreamExt as _;

use super::comparison::{BenchClient, Names};
use crate::rates::BODY;

/// Stream with a consumer.
pub(super) struct BareClient {
    context: jetstream::Context,
    subject: String,
    consumer: PullConsumer,
}

impl BareClient {
    pub(super) async fn open(url: &str, names: &Names) -> Result<Self> {
        let subject = names.bare();
        let context = jetstream::new(async_nats::connect(url).await?);
        let config = stream::Config {
            name: subject.clone(),
            subjects: vec![subject.clone()],
            retention: stream::RetentionPolicy::Interest,
            ..stream::Config::default()
        };
        let created = context.create_stream(config).await?;
        let config = pull::Config {
            durable_name: Some("bench".to_owned()),
            max_ack_pending: -1,
            ..pull::Config::default()
        };
        let consumer = created.create_consumer(config).await?;
        Ok(Self { context, subject, consumer })
    }
}

impl BenchClient for BareClient {
    fn how(&self) -> &'static str {
        "a publish with the body alone, all confirmations of a batch awaited \
                               together, one fetch for a batch, an acknowledgement each"
    }

    async fn publish(&mut self, count: usize) -> Result<()> {
        let mut unconfirmed = Vec::with_capacity(count);
        for _ in 0..count {
            let body = Bytes::from_static(&BODY);
            unconfirmed.push(self.context.publish(self.subject.clone(), body).await?);
        }
        for confirmation in unconfirmed {
            confirmation.into_future().await?;
        }
        Ok(())
    }

    async fn consume(&mut self, limit: usize) -> Result<usize> {
        let mut messages = self.consumer.batch().max_messages(limit).messages().await?;
        let mut count = 0;
        while let Some(message) = messages.next().await {
            let message = message.map_err(anyhow::Error::from_boxed)?;
            anyhow::ensure!(message.payload[..] == BODY, "a message has a different body");
            message.ack().await.map_err(anyhow::Error::from_boxed)?;
            count += 1;
        }
        Ok(count)
    }

    async fn close(self) -> Result<()> {
        self.context.delete_stream(&self.subject).await.context("delete the stream")?;
        Ok(())
    }
}
