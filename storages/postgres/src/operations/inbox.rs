//! Inbox: the deliveries that a group has processed.

use async_trait::async_trait;
use punctual::jiff::Timestamp;
use punctual::model::MessageId;
use punctual::{Inbox, InboxResult, Result};
use punctual_columns::instant::micros;
use tokio_postgres::types::Type;

use crate::PostgresStorage;
use crate::driver::Driver;
use crate::error::StorageError;
use crate::inner::attempt;
use crate::value::{Micros, Param};

#[async_trait]
impl Inbox for PostgresStorage {
    async fn has_seen(&self, group: &str, message: MessageId) -> Result<bool> {
        let id = message.as_uuid();
        let sql = format!(
            "SELECT 1 FROM {}.inbox WHERE \"group\" = $1 AND message = $2",
            self.inner.schema.quoted
        );
        attempt!(self.inner, |session| async {
            let params: [Param<'_>; 2] = [(&group, Type::TEXT), (&id, Type::UUID)];
            Ok(!session.query_text(&sql, &params).await?.is_empty())
        })
    }

    async fn admit(&self, group: &str, message: MessageId, now: Timestamp) -> Result<InboxResult> {
        let schema = &self.inner.schema.quoted;
        attempt!(self.inner, |session| admit(session, schema, (group, message), now))
    }

    async fn forget(&self, before: Timestamp, limit: usize) -> Result<u64> {
        let before = Micros(micros(before));
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let inbox = format!("{}.inbox", self.inner.schema.quoted);
        let sql = format!(
            "DELETE FROM {inbox} WHERE (\"group\", message) IN (SELECT \"group\", message \
             FROM {inbox} WHERE seen_at < $1 ORDER BY seen_at LIMIT $2 FOR UPDATE SKIP LOCKED)"
        );
        attempt!(self.inner, |session| async {
            let params: [Param<'_>; 2] = [(&before, Type::TIMESTAMPTZ), (&limit, Type::INT8)];
            session.execute_text(&sql, &params).await
        })
    }
}

/// Records a delivery in the open transaction of a session, unless it is recorded already.
pub(crate) async fn admit(
    session: &impl Driver,
    schema: &str,
    (group, message): (&str, MessageId),
    now: Timestamp,
) -> Result<InboxResult, StorageError> {
    let (id, now) = (message.as_uuid(), Micros(micros(now)));
    let sql = format!(
        "INSERT INTO {schema}.inbox (\"group\", message, seen_at) VALUES ($1, $2, $3) \
         ON CONFLICT DO NOTHING"
    );
    let params: [Param<'_>; 3] =
        [(&group, Type::TEXT), (&id, Type::UUID), (&now, Type::TIMESTAMPTZ)];
    let inserted = session.execute_text(&sql, &params).await?;
    Ok(if inserted == 1 { InboxResult::First } else { InboxResult::Again })
}
