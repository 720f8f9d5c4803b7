//! Groups: the consumer groups that receive a topic.

use punctual::Result;
use punctual::backend::storage::{GROUPS_MAX, too_many_groups};
use punctual::jiff::Timestamp;
use punctual::model::Topic;
use punctual_columns::instant::micros;
use tokio_postgres::types::Type;

use crate::inner::{Inner, attempt};
use crate::value::{Micros, Param};

impl Inner {
    pub(crate) async fn register_group(
        &self,
        topic: &Topic,
        group: &str,
        now: Timestamp,
    ) -> Result<()> {
        let (table, now) = (format!("{}.topic_group", self.schema.quoted), Micros(micros(now)));
        let (name, most) = (topic.as_str(), i64::try_from(GROUPS_MAX).unwrap_or(i64::MAX));
        let insert = format!(
            "INSERT INTO {table} (topic, \"group\", joined_at) SELECT $1, $2, $3 \
             WHERE (SELECT count(*) FROM {table}) < $4 ON CONFLICT DO NOTHING"
        );
        let select = format!("SELECT 1 FROM {table} WHERE topic = $1 AND \"group\" = $2");
        let known = attempt!(self, |session| async {
            let params: [Param<'_>; 4] = [
                (&name, Type::TEXT),
                (&group, Type::TEXT),
                (&now, Type::TIMESTAMPTZ),
                (&most, Type::INT8),
            ];
            let joined = session.execute_text(&insert, &params).await? == 1;
            Ok(joined || !session.query_text(&select, &params[..2]).await?.is_empty())
        })?;
        if known { Ok(()) } else { Err(too_many_groups(topic, group)) }
    }

    pub(crate) async fn groups(&self) -> Result<Vec<(Topic, String)>> {
        let sql = format!(
            "SELECT topic, \"group\" FROM {}.topic_group ORDER BY topic, \"group\"",
            self.schema.quoted
        );
        let rows = attempt!(self, |session| session.query_text(&sql, &[]))?;
        let mut groups = Vec::with_capacity(rows.len());
        for row in rows {
            let topic: &str = row.get(0);
            groups.push((Topic::stored(topic)?, row.get(1)));
        }
        Ok(groups)
    }
}
