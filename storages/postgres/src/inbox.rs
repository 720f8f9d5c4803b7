//! The inbox: which deliveries a group has dealt with.

use async_trait::async_trait;
use punctual::jiff::Timestamp;
use punctual::model::MessageId;
use punctual::{Admitted, Inbox, Result};
use punctual_rows::instant::micros;
use tokio_postgres::types::Type;

use crate::PostgresStorage;
use crate::driver::Driver;
use crate::failure::Failure;
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
        attempt!(self.inner, |held| async {
            let params: [Param<'_>; 2] = [(&group, Type::TEXT), (&id, Type::UUID)];
            Ok(!held.ask(&sql, &params).await?.is_empty())
        })
    }

    async fn admit(&self, group: &str, message: MessageId, now: Timestamp) -> Result<Admitted> {
        let schema = &self.inner.schema.quoted;
        attempt!(self.inner, |held| admit(held, schema, (group, message), now))
    }

    async fn forget(&self, before: Timestamp, limit: usize) -> Result<u64> {
        let before = Micros(micros(before));
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let inbox = format!("{}.inbox", self.inner.schema.quoted);
        let sql = format!(
            "DELETE FROM {inbox} WHERE (\"group\", message) IN (SELECT \"group\", message \
             FROM {inbox} WHERE seen_at < $1 ORDER BY seen_at LIMIT $2 FOR UPDATE SKIP LOCKED)"
        );
        attempt!(self.inner, |held| async {
            let params: [Param<'_>; 2] = [(&before, Type::TIMESTAMPTZ), (&limit, Type::INT8)];
            held.tell(&sql, &params).await
        })
    }
}

/// Notes a delivery, in whatever transaction the session is in.
pub(crate) async fn admit(
    session: &impl Driver,
    schema: &str,
    (group, message): (&str, MessageId),
    now: Timestamp,
) -> Result<Admitted, Failure> {
    let (id, now) = (message.as_uuid(), Micros(micros(now)));
    let sql = format!(
        "INSERT INTO {schema}.inbox (\"group\", message, seen_at) VALUES ($1, $2, $3) \
         ON CONFLICT DO NOTHING"
    );
    let params: [Param<'_>; 3] =
        [(&group, Type::TEXT), (&id, Type::UUID), (&now, Type::TIMESTAMPTZ)];
    let noted = session.tell(&sql, &params).await?;
    Ok(if noted == 1 { Admitted::First } else { Admitted::Again })
}
