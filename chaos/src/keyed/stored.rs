//! What the storage holds in the end: every message by the key and the position that its body names.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use punctual::Inspect;
use punctual::inspect::{MessageFilter, PAGE_LIMIT_MAX, PageRequest};
use serde_json::Value;

use super::check::Effect;

/// More pages than any run fills.
const PAGES_MAX: usize = 10_000;

/// Reads all messages, also those that are done.
pub(super) async fn read(inspect: &dyn Inspect) -> Result<BTreeMap<String, Vec<Effect>>> {
    let mut stored: BTreeMap<String, Vec<Effect>> = BTreeMap::new();
    let mut page = PageRequest::first(PAGE_LIMIT_MAX);
    for _ in 0..PAGES_MAX {
        let paged = inspect.messages(MessageFilter::default(), page).await?;
        for record in paged.rows {
            let body: Value = serde_json::from_slice(&record.message.body.bytes)?;
            let key = body["key"].as_str().context("a message without its key")?.to_owned();
            let position = body["position"].as_u64().context("a message without its position")?;
            let effect = Effect { position, id: record.message.id.to_string() };
            stored.entry(key).or_default().push(effect);
        }
        match paged.next {
            Some(last) => page = PageRequest::after(last, PAGE_LIMIT_MAX),
            None => return Ok(stored),
        }
    }
    anyhow::bail!("the storage has more than {PAGES_MAX} pages of messages")
}
