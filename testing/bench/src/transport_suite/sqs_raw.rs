//! Bare client of SQS: ten entries per call, and as many concurrent calls as our transport makes.

use anyhow::{Context as _, Result};
use aws_config::BehaviorVersion;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::{Config, Credentials, Region};
use aws_sdk_sqs::types::{DeleteMessageBatchRequestEntry, SendMessageBatchRequestEntry};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use url::Url;

use super::comparison::{BenchClient, Names};
use crate::rates::BODY;

/// Largest number of entries in a call.
const ENTRIES_MAX: usize = 10;
/// Number of concurrent calls, and of concurrent polls.
const CALLS: usize = 16;
const POLLS: usize = 8;
const REGION: &str = "us-east-1";

/// Client with a queue.
pub(super) struct BareClient {
    client: Client,
    queue: String,
}

impl BareClient {
    pub(super) async fn open(url: &str, names: &Names) -> Result<Self> {
        let url = Url::parse(url.trim_start_matches("sqs+")).context("parse the address of SQS")?;
        let (host, port) = (
            url.host_str().context("the address of SQS has no host")?,
            url.port_or_known_default().context("the address of SQS has no port")?,
        );
        let region = url.query_pairs().find(|(name, _)| name == "region");
        let region = region.map_or_else(|| REGION.to_owned(), |(_, region)| region.into_owned());
        let secret = url.password().unwrap_or("none");
        let key = if url.username().is_empty() { "none" } else { url.username() };
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .http_client(aws_smithy_http_client::Builder::new().build_http())
            .endpoint_url(format!("{}://{host}:{port}", url.scheme()))
            .region(Region::new(region))
            .credentials_provider(Credentials::new(key, secret, None, None, "bench"))
            .build();
        let client = Client::from_conf(config);
        let created = client.create_queue().queue_name(names.bare()).send().await?;
        Ok(Self { queue: created.queue_url.context("the queue has no URL")?, client })
    }

    async fn send(&self, count: usize) -> Result<()> {
        let entry = |id: usize| {
            let entry = SendMessageBatchRequestEntry::builder().id(id.to_string());
            entry.message_body(String::from_utf8_lossy(&BODY)).build()
        };
        let entries = (0..count).map(entry).collect::<Result<Vec<_>, _>>()?;
        let call = self.client.send_message_batch().queue_url(&self.queue);
        let answer = call.set_entries(Some(entries)).send().await?;
        anyhow::ensure!(answer.failed.is_empty(), "a message was not accepted");
        Ok(())
    }

    /// Polls once; returns the receipt handles of the messages.
    async fn poll(&self, count: usize) -> Result<Vec<String>> {
        let call = self.client.receive_message().queue_url(&self.queue);
        let call = call.max_number_of_messages(i32::try_from(count)?).visibility_timeout(60);
        let found = call.send().await?.messages.unwrap_or_default();
        let handles = found.into_iter().map(|message| {
            let is_same = message.body.is_some_and(|body| body.as_bytes() == BODY);
            anyhow::ensure!(is_same, "a message has a different body");
            message.receipt_handle.context("a message has no receipt handle")
        });
        handles.collect()
    }

    async fn delete(&self, handles: &[String]) -> Result<()> {
        let entries = handles.iter().enumerate().map(|(id, handle)| {
            let entry = DeleteMessageBatchRequestEntry::builder().id(id.to_string());
            entry.receipt_handle(handle).build()
        });
        let entries = entries.collect::<Result<Vec<_>, _>>()?;
        let call = self.client.delete_message_batch().queue_url(&self.queue);
        let answer = call.set_entries(Some(entries)).send().await?;
        anyhow::ensure!(answer.failed.is_empty(), "a message was not deleted");
        Ok(())
    }
}

/// Returns the number of entries of each call.
fn calls(count: usize) -> Vec<usize> {
    (0..count).step_by(ENTRIES_MAX).map(|first| ENTRIES_MAX.min(count - first)).collect()
}

impl BenchClient for BareClient {
    fn how(&self) -> &'static str {
        "ten entries per call, 16 calls and 8 polls at a time, the body alone, a batch deleted by tens"
    }

    async fn publish(&mut self, count: usize) -> Result<()> {
        let this = &*self;
        let sent = stream::iter(calls(count)).map(Ok);
        sent.try_for_each_concurrent(CALLS, |count| this.send(count)).await
    }

    async fn consume(&mut self, limit: usize) -> Result<usize> {
        let this = &*self;
        let polls = stream::iter(calls(limit)).map(|count| this.poll(count));
        let found: Vec<Vec<String>> = polls.buffer_unordered(POLLS).try_collect().await?;
        let handles: Vec<String> = found.into_iter().flatten().collect();
        let pieces: Vec<&[String]> = handles.chunks(ENTRIES_MAX).collect();
        let deleted = stream::iter(pieces).map(Ok);
        deleted.try_for_each_concurrent(CALLS, |piece| this.delete(piece)).await?;
        Ok(handles.len())
    }

    async fn close(self) -> Result<()> {
        self.client.delete_queue().queue_url(&self.queue).send().await?;
        Ok(())
    }
}
