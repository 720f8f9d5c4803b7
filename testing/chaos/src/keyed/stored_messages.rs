//! Stored messages at the end of a run, by the key and the position in their bodies.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use punctual::Inspect;
use punctual::inspect::{MessageFilter, PAGE_LIMIT_MAX, PageRequest};
use serde_json::Value;

use super::check::StoredMessage;

/// Limit that no run reaches.
const PAGES_MAX: usize = 10_000;

/// Reads all messages, including those that are done.
pub(super) async fn read(inspect: &dyn Inspect) -> Result<BTreeMap<String, Vec<StoredMessage>>> {
    let mut stored: BTreeMap<String, Vec<StoredMessage>> = BTreeMap::new();
    let mut page = PageRequest::first(PAGE_LIMIT_MAX);
    for _ in 0..PAGES_MAX {
        let paged = inspect.messages(MessageFilter::default(), page).await?;
        for record in paged.rows {
            let body: Value = serde_json::from_slice(&record.message.body.bytes)?;
            let key = body["key"].as_str().context("a message has no key in its body")?.to_owned();
            let position =
                body["position"].as_u64().context("a message has no position in its body")?;
            let message = StoredMessage { position, id: record.message.id.to_string() };
            stored.entry(key).or_default().push(message);
        }
        match paged.next {
            Some(last) => page = PageRequest::after(last, PAGE_LIMIT_MAX),
            None => return Ok(stored),
        }
    }
    anyhow::bail!("the storage has more than {PAGES_MAX} pages of messages")
}
