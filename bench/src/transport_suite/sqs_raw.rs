//! SQS with its bare client: ten entries to a call, as many calls at a time as our transport makes.

use anyhow::{Context as _, Result};
use aws_config::BehaviorVersion;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::{Config, Credentials, Region};
use aws_sdk_sqs::types::{DeleteMessageBatchRequestEntry, SendMessageBatchRequestEntry};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use url::Url;

use super::carrier::{Carrier, Names};
use crate::rates::BODY;

/// The most entries of a call.
const CALL_MAX: usize = 10;
/// Calls at a time, and polls.
const CALLS: usize = 16;
const POLLS: usize = 8;
const REGION: &str = "us-east-1";

/// A queue.
pub(super) struct Bare {
    client: Client,
    queue: String,
}

impl Bare {
    pub(super) async fn open(url: &str, names: &Names) -> Result<Self> {
        let url = Url::parse(url.trim_start_matches("sqs+")).context("the address of SQS")?;
        let (host, port) =
            (url.host_str().context("a host")?, url.port_or_known_default().context("a port")?);
        let asked = url.query_pairs().find(|(name, _)| name == "region");
        let region = asked.map_or_else(|| REGION.to_owned(), |(_, region)| region.into_owned());
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
        let made = client.create_queue().queue_name(names.bare()).send().await?;
        Ok(Self { queue: made.queue_url.context("a queue without an address")?, client })
    }

    async fn send(&self, count: usize) -> Result<()> {
        let entry = |id: usize| {
            let entry = SendMessageBatchRequestEntry::builder().id(id.to_string());
            entry.message_body(String::from_utf8_lossy(&BODY)).build()
        };
        let entries = (0..count).map(entry).collect::<Result<Vec<_>, _>>()?;
        let call = self.client.send_message_batch().queue_url(&self.queue);
        let answer = call.set_entries(Some(entries)).send().await?;
        anyhow::ensure!(answer.failed.is_empty(), "a message was not taken");
        Ok(())
    }

    /// The handles of what a poll brings.
    async fn poll(&self, count: usize) -> Result<Vec<String>> {
        let call = self.client.receive_message().queue_url(&self.queue);
        let call = call.max_number_of_messages(i32::try_from(count)?).visibility_timeout(60);
        let found = call.send().await?.messages.unwrap_or_default();
        let handles = found.into_iter().map(|message| {
            let is_same = message.body.is_some_and(|body| body.as_bytes() == BODY);
            anyhow::ensure!(is_same, "another body came back");
            message.receipt_handle.context("a message without a handle")
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

/// How many go into each call.
fn calls(count: usize) -> Vec<usize> {
    (0..count).step_by(CALL_MAX).map(|first| CALL_MAX.min(count - first)).collect()
}

impl Carrier for Bare {
    fn how(&self) -> &'static str {
        "ten entries to a call, 16 calls and 8 polls at a time, the body alone, a batch deleted by tens"
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
        let pieces: Vec<&[String]> = handles.chunks(CALL_MAX).collect();
        let deleted = stream::iter(pieces).map(Ok);
        deleted.try_for_each_concurrent(CALLS, |piece| this.delete(piece)).await?;
        Ok(handles.len())
    }

    async fn close(self) -> Result<()> {
        self.client.delete_queue().queue_url(&self.queue).send().await?;
        Ok(())
    }
}
