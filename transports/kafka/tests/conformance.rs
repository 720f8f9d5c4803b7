//! The suite of all transports. Each case has a cluster of its own, the one inside the client library; with
//! `PUNCTUAL_KAFKA_URL` all of them use the one at that address.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a set-up that fails is a test that fails

#[path = "it/cluster.rs"]
mod cluster;

use std::process::ExitCode;
use std::sync::Arc;

use async_trait::async_trait;
use cluster::Cluster;
use punctual::model::Topic;
use punctual::wire::Wire;
use punctual::{Result, Transport};
use punctual_conformance::transport::{self, Backend, Need, Place};

struct Kafka(Cluster);

#[async_trait]
impl Place for Kafka {
    async fn open(&self) -> Result<Arc<dyn Transport>> {
        Ok(Arc::new(self.0.builder().connect().await?))
    }

    async fn put(&self, topic: &Topic, body: &[u8], headers: &[(&str, &str)]) -> Result<()> {
        self.0.put(topic, body, headers).await
    }

    async fn dead(&self, topic: &Topic, group: &str) -> Result<Vec<Wire>> {
        self.0.letters(format!("{topic}.{group}.dead")).await
    }

    async fn invalid(&self, topic: &Topic, group: &str) -> Result<Vec<Wire>> {
        self.0.letters(format!("{topic}.{group}.invalid")).await
    }

    async fn cut(&self) -> Result<()> {
        self.0.cut()
    }
}

fn main() -> ExitCode {
    match std::env::var("PUNCTUAL_KAFKA_URL") {
        Ok(address) if !address.is_empty() => {
            let backend = Backend::here(move || {
                let cluster = Cluster::at(address.clone());
                async { Ok(Kafka(cluster)) }
            });
            let shared = "other cases use the same brokers";
            let backend = backend.cannot(Need::Restart, shared).cannot(Need::Cut, shared);
            transport::run("kafka", backend)
        }
        _ => {
            let backend = Backend::here(|| async {
                let cluster = Cluster::new();
                cluster.make("mail", &["office", "archive"])?;
                cluster.make("mail.sent", &["office"])?;
                Ok(Kafka(cluster))
            });
            // Going down and up breaks its connections; its log stays where it is, so it would show nothing.
            let volatile = "the cluster inside the client library keeps its log in memory";
            transport::run("kafka", backend.cannot(Need::Restart, volatile))
        }
    }
}
