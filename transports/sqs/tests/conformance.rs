//! Conformance suite of all transports, against an endpoint that all cases share: each has its own prefix for
//! its queues and its own proxy, which it may break.

// Without the standard harness clippy does not recognize this as test code.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "it/raw.rs"]
mod raw;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_sqs::Client;
use punctual::backend::wire::Wire;
use punctual::model::Topic;
use punctual::{Result, Transport};
use punctual_conformance::backend_tests::{Proxy, unique_name};
use punctual_conformance::transport::{self, Backend, Environment, Need};
use punctual_sqs::SqsTransport;

const VARIABLE: &str = "PUNCTUAL_SQS_URL";

struct QueueFixture {
    proxy: Proxy,
    client: Client,
    name: String,
}

impl QueueFixture {
    async fn new(address: String) -> Result<Self> {
        let name = format!("c{}", unique_name());
        let (proxy, client) = (Proxy::to(&address).await, raw::client(&address));
        Ok(Self { proxy, client, name })
    }

    /// Returns the prefix of a topic's queue names; the suite's topics and groups need no escapes.
    fn queue_prefix(&self, topic: &Topic) -> String {
        format!("{}-{topic}-", self.name)
    }

    async fn messages_in(&self, topic: &Topic, rest: String) -> Vec<Wire> {
        let queue = raw::queue(&self.client, &(self.queue_prefix(topic) + &rest)).await;
        raw::letters(&self.client, &queue).await
    }
}

#[async_trait::async_trait]
impl Environment for QueueFixture {
    async fn open(&self) -> Result<Arc<dyn Transport>> {
        let builder = SqsTransport::builder(self.proxy.address()).prefix(&self.name);
        // A case that drops a consumer waits for its in-flight messages.
        let builder = builder
            .poll_timeout(Duration::from_secs(1))
            .visibility_timeout(Duration::from_secs(10));
        Ok(Arc::new(builder.connect().await?))
    }

    async fn publish_foreign(
        &self,
        topic: &Topic,
        body: &[u8],
        headers: &[(&str, &str)],
    ) -> Result<()> {
        for queue in raw::queues(&self.client, &self.queue_prefix(topic)).await {
            if !queue.ends_with("-dead") && !queue.ends_with("-invalid") {
                raw::put(&self.client, &queue, body, headers).await;
            }
        }
        Ok(())
    }

    async fn dead(&self, topic: &Topic, group: &str) -> Result<Vec<Wire>> {
        Ok(self.messages_in(topic, format!("{group}-dead")).await)
    }

    async fn invalid(&self, topic: &Topic, group: &str) -> Result<Vec<Wire>> {
        Ok(self.messages_in(topic, format!("{group}-invalid")).await)
    }

    fn proxy(&self) -> Option<&Proxy> {
        Some(&self.proxy)
    }

    async fn remove(&self) -> Result<()> {
        for queue in raw::queues(&self.client, &format!("{}-", self.name)).await {
            self.client.delete_queue().queue_url(queue).send().await.expect("it is removed");
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    let backend = Backend::at(VARIABLE, QueueFixture::new).cannot(
        Need::Restart,
        "SQS cannot be restarted, and its emulator keeps everything in memory",
    );
    transport::run("sqs", backend)
}
