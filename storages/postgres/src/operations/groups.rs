//! Groups: the consumer groups that receive a topic.

use punctual::backend::storage::GROUPS_MAX;
use punctual::jiff::Timestamp;
use punctual::model::Topic;
use punctual_columns::instant::micros;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::error::StorageError;
use crate::inner::Inner;
use crate::session::Session;
use crate::value::{Micros, Param};

impl Inner {
    /// Registers a group; returns false when there are too many.
    pub(crate) async fn register_group(
        &self,
        session: &Session<'_>,
        (topic, group): (&Topic, &str),
        now: Timestamp,
    ) -> Result<bool, StorageError> {
        let (table, now) = (format!("{}.topic_group", self.schema.quoted), Micros(micros(now)));
        let (name, most) = (topic.as_str(), i64::try_from(GROUPS_MAX).unwrap_or(i64::MAX));
        let insert = format!(
            "INSERT INTO {table} (topic, \"group\", joined_at) SELECT $1, $2, $3 \
             WHERE (SELECT count(*) FROM {table}) < $4 ON CONFLICT DO NOTHING"
        );
        let select = format!("SELECT 1 FROM {table} WHERE topic = $1 AND \"group\" = $2");
        let params: [Param<'_>; 4] = [
            (&name, Type::TEXT),
            (&group, Type::TEXT),
            (&now, Type::TIMESTAMPTZ),
            (&most, Type::INT8),
        ];
        let joined = session.execute_text(&insert, &params).await? == 1;
        Ok(joined || !session.query_text(&select, &params[..2]).await?.is_empty())
    }

    pub(crate) async fn groups(
        &self,
        session: &Session<'_>,
    ) -> Result<Vec<(Topic, String)>, StorageError> {
        let sql = format!(
            "SELECT topic, \"group\" FROM {}.topic_group ORDER BY topic, \"group\"",
            self.schema.quoted
        );
        let rows = session.query_text(&sql, &[]).await?;
        let read = |row: &Row| Ok((Topic::stored(row.try_get::<_, &str>(0)?)?, row.try_get(1)?));
        rows.iter().map(read).collect()
    }
}
