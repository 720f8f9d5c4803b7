//! Fixture of a test: a prefix of its own, removed at the end, and a plain client to read its queues.

use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::QueueAttributeName;
use punctual_conformance::backend_tests;
use punctual_sqs::{SqsBuilder, SqsTransport};

use crate::raw;

/// Environment variable with the endpoint's address.
pub(crate) const VARIABLE: &str = "PUNCTUAL_SQS_URL";

/// Prefix whose queues are removed when the test has passed.
pub(crate) struct Fixture {
    pub(crate) address: String,
    pub(crate) prefix: String,
    pub(crate) client: Client,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let prefix = format!("it{}", backend_tests::unique_name());
        let address = backend_tests::address(VARIABLE);
        let client = raw::client(&address);
        Self { address, prefix, client }
    }

    pub(crate) fn builder(&self) -> SqsBuilder {
        self.builder_at(&self.address)
    }

    pub(crate) fn builder_at(&self, address: &str) -> SqsBuilder {
        SqsTransport::builder(address).prefix(&self.prefix).poll_timeout(Duration::from_secs(1))
    }

    pub(crate) async fn open(&self) -> SqsTransport {
        self.builder().connect().await.unwrap()
    }

    /// Returns the full name of a queue.
    pub(crate) fn name(&self, rest: &str) -> String {
        format!("{}-{rest}", self.prefix)
    }

    /// Returns the names of all queues, sorted and without the prefix.
    pub(crate) async fn queues(&self) -> Vec<String> {
        let prefix = self.name("");
        let urls = raw::queues(&self.client, &prefix).await;
        let name = |url: &String| url.rsplit_once(&prefix).unwrap().1.to_owned();
        let mut names: Vec<String> = urls.iter().map(name).collect();
        names.sort();
        names
    }

    /// Returns an attribute of a queue.
    pub(crate) async fn setting(&self, queue: &str, name: QueueAttributeName) -> Option<String> {
        let url = raw::queue(&self.client, &self.name(queue)).await;
        let call = self.client.get_queue_attributes().queue_url(url).attribute_names(name.clone());
        call.send().await.unwrap().attributes.unwrap_or_default().remove(&name)
    }

    pub(crate) async fn remove(self) {
        for queue in raw::queues(&self.client, &self.name("")).await {
            self.client.delete_queue().queue_url(queue).send().await.unwrap();
        }
    }
}
