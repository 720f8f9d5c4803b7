//! Groups: the consumer groups that receive a topic.

use punctual::backend::storage::{GROUPS_MAX, too_many_groups};
use punctual::jiff::Timestamp;
use punctual::model::Topic;
use punctual_columns::instant::micros;
use rusqlite::{Connection, params};

use crate::error::StorageResult;

const REGISTER: &str = "INSERT INTO punctual_group (topic, consumer_group, joined_at) \
     SELECT ?1, ?2, ?3 WHERE (SELECT count(*) FROM punctual_group) < ?4 ON CONFLICT DO NOTHING";
const IS_KNOWN: &str = "SELECT 1 FROM punctual_group WHERE topic = ?1 AND consumer_group = ?2";
const LIST: &str =
    "SELECT topic, consumer_group FROM punctual_group ORDER BY topic, consumer_group";

/// Registers a group for a topic.
pub(crate) fn register(
    transaction: &Connection,
    topic: &Topic,
    group: &str,
    now: Timestamp,
) -> StorageResult<()> {
    let most = i64::try_from(GROUPS_MAX).unwrap_or(i64::MAX);
    let row = params![topic.as_str(), group, micros(now), most];
    let joined = transaction.prepare_cached(REGISTER)?.execute(row)? == 1;
    if joined || transaction.prepare_cached(IS_KNOWN)?.exists(params![topic.as_str(), group])? {
        return Ok(());
    }
    Err(too_many_groups(topic, group).into())
}

/// Returns all topics with their groups.
pub(crate) fn list(connection: &Connection) -> StorageResult<Vec<(Topic, String)>> {
    let mut statement = connection.prepare_cached(LIST)?;
    let rows = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get(1)?)))?;
    let mut groups = Vec::new();
    for row in rows {
        let (topic, group) = row?;
        groups.push((Topic::stored(topic)?, group));
    }
    Ok(groups)
}
