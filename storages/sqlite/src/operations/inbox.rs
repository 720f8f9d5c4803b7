//! Inbox: the deliveries that a group has processed.

use async_trait::async_trait;
use punctual::jiff::Timestamp;
use punctual::model::MessageId;
use punctual::{Inbox, InboxResult, Result};
use punctual_columns::instant::micros;
use rusqlite::{Connection, params};

use crate::driver::{Driver, at_once};
use crate::error::StorageResult;
use crate::storage::SqliteStorage;
use crate::value::values;

/// Records a delivery, unless it is recorded already.
const ADMIT: &str = "INSERT INTO punctual_inbox (consumer_group, message, seen_at) \
     VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";

/// Records that a group processes a message.
pub(crate) async fn admit(
    driver: &impl Driver,
    group: &str,
    message: MessageId,
    now: Timestamp,
) -> StorageResult<InboxResult> {
    let row = values![group, message.as_uuid(), micros(now)];
    let is_first = driver.run(ADMIT, &row).await? == 1;
    Ok(if is_first { InboxResult::First } else { InboxResult::Again })
}

fn has_seen(connection: &Connection, group: &str, message: MessageId) -> StorageResult<bool> {
    let sql = "SELECT 1 FROM punctual_inbox WHERE consumer_group = ?1 AND message = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.exists(params![group, message.as_uuid().into_bytes()])?)
}

fn forget(transaction: &Connection, before: Timestamp, limit: usize) -> StorageResult<u64> {
    let sql = "DELETE FROM punctual_inbox WHERE (consumer_group, message) IN \
               (SELECT consumer_group, message FROM punctual_inbox WHERE seen_at < ?1 \
               ORDER BY seen_at LIMIT ?2)";
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let forgotten = transaction.prepare_cached(sql)?.execute(params![micros(before), limit])?;
    Ok(forgotten as u64)
}

#[async_trait]
impl Inbox for SqliteStorage {
    async fn has_seen(&self, group: &str, message: MessageId) -> Result<bool> {
        let group = group.to_owned();
        self.readers.read(move |connection| has_seen(connection, &group, message)).await
    }

    async fn admit(&self, group: &str, message: MessageId, now: Timestamp) -> Result<InboxResult> {
        let group = group.to_owned();
        self.writer.write(1, move |tx, _| at_once(admit(&tx, &group, message, now))).await
    }

    async fn forget(&self, before: Timestamp, limit: usize) -> Result<u64> {
        self.writer.write(limit, move |tx, _| forget(tx, before, limit)).await
    }
}
