//! Where a test keeps its queues: under a prefix of its own, removed at the end, and looked at
//! past the transport.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::QueueAttributeName;
use punctual_conformance::own;
use punctual_sqs::{SqsBuilder, SqsTransport};

use crate::raw;

/// Where the endpoint's address is.
pub(crate) const VARIABLE: &str = "PUNCTUAL_SQS_URL";

/// A prefix whose queues are removed when the test has passed.
pub(crate) struct Place {
    pub(crate) address: String,
    pub(crate) prefix: String,
    pub(crate) client: Client,
}

static NEXT: AtomicU64 = AtomicU64::new(0);

impl Place {
    pub(crate) fn new() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("it{}-{number}", std::process::id());
        let address = own::address(VARIABLE);
        let client = raw::client(&address);
        Self { address, prefix, client }
    }

    pub(crate) fn builder(&self) -> SqsBuilder {
        self.builder_at(&self.address)
    }

    pub(crate) fn builder_at(&self, address: &str) -> SqsBuilder {
        SqsTransport::builder(address).prefix(&self.prefix).wait(Duration::from_secs(1))
    }

    pub(crate) async fn open(&self) -> SqsTransport {
        self.builder().connect().await.unwrap()
    }

    /// The full name of a queue.
    pub(crate) fn name(&self, rest: &str) -> String {
        format!("{}-{rest}", self.prefix)
    }

    /// The names of all queues, in order and without the prefix.
    pub(crate) async fn queues(&self) -> Vec<String> {
        let begins = self.name("");
        let urls = raw::queues(&self.client, &begins).await;
        let name = |url: &String| url.rsplit_once(&begins).unwrap().1.to_owned();
        let mut names: Vec<String> = urls.iter().map(name).collect();
        names.sort();
        names
    }

    /// A setting of a queue.
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
