//! Conformance suite of all transports. Each case has its own cluster, the one inside the client library; with
//! `PUNCTUAL_KAFKA_URL` all cases use the cluster at that address.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a set-up that fails is a test that fails

#[path = "it/cluster.rs"]
mod cluster;

use std::process::ExitCode;
use std::sync::Arc;

use async_trait::async_trait;
use cluster::Cluster;
use punctual::backend::wire::Wire;
use punctual::model::Topic;
use punctual::{Result, Transport};
use punctual_conformance::backend_tests::Slowness;
use punctual_conformance::transport::{self, Backend, Environment, Need};

struct Kafka(Cluster);

#[async_trait]
impl Environment for Kafka {
    async fn open(&self) -> Result<Arc<dyn Transport>> {
        Ok(Arc::new(self.0.builder().connect().await?))
    }

    async fn publish_foreign(
        &self,
        topic: &Topic,
        body: &[u8],
        headers: &[(&str, &str)],
    ) -> Result<()> {
        self.0.put(topic, body, headers).await
    }

    async fn dead(&self, topic: &Topic, group: &str) -> Result<Vec<Wire>> {
        self.0.read_topic(format!("{topic}.{group}.dead")).await
    }

    async fn invalid(&self, topic: &Topic, group: &str) -> Result<Vec<Wire>> {
        self.0.read_topic(format!("{topic}.{group}.invalid")).await
    }

    async fn cut(&self) -> Result<()> {
        self.0.cut()
    }

    /// The brokers announce their own addresses, so clients would bypass a proxy: the brokers themselves delay their
    /// responses.
    async fn slow_down(&self, slowness: Slowness) -> Result<()> {
        self.0.slow_down(slowness.request + slowness.response)
    }
}

fn main() -> ExitCode {
    match std::env::var("PUNCTUAL_KAFKA_URL") {
        Ok(address) if !address.is_empty() => {
            let backend = Backend::local(move || {
                let cluster = Cluster::at(address.clone());
                async { Ok(Kafka(cluster)) }
            });
            let shared = "other cases use the same brokers";
            let backend = backend.cannot(Need::Restart, shared).cannot(Need::Cut, shared);
            let backend = backend.cannot(Need::SlowDown, shared);
            transport::run("kafka", backend)
        }
        _ => {
            let backend = Backend::local(|| async {
                let cluster = Cluster::new();
                cluster.make("mail", &["office", "archive"])?;
                cluster.make("mail.sent", &["office"])?;
                Ok(Kafka(cluster))
            });
            // Going down and up breaks its connections but keeps its log, so a restart would prove nothing.
            let volatile = "the cluster inside the client library keeps its log in memory";
            transport::run("kafka", backend.cannot(Need::Restart, volatile))
        }
    }
}
