//! History of every message: counts attempts by their ending.

use std::collections::BTreeMap;

use anyhow::Result;
use punctual::Inspect;
use punctual::inspect::{ExecutionFilter, PAGE_LIMIT_MAX, PageRequest};
use punctual::model::{Ending, MessageId};

use crate::check::MessageHistory;

/// Limit that no run reaches.
const PAGES_MAX: usize = 10_000;

/// Reads all executions; returns their counts by message.
pub(super) async fn read(inspect: &dyn Inspect) -> Result<BTreeMap<MessageId, MessageHistory>> {
    let mut history: BTreeMap<MessageId, MessageHistory> = BTreeMap::new();
    let mut page = PageRequest::first(PAGE_LIMIT_MAX);
    for _ in 0..PAGES_MAX {
        let paged = inspect.executions(ExecutionFilter::default(), page).await?;
        for execution in paged.rows {
            let Some(message) = execution.message else { continue };
            let attempts = history.entry(message).or_default();
            match execution.ending {
                Ending::Succeeded => attempts.succeeded += 1,
                Ending::Lost => attempts.lost += 1,
                Ending::Released => attempts.released += 1,
                _ => {}
            }
        }
        match paged.next {
            Some(last) => page = PageRequest::after(last, PAGE_LIMIT_MAX),
            None => return Ok(history),
        }
    }
    anyhow::bail!("the history has more than {PAGES_MAX} pages")
}
