//! Reading for people: pages, one message, counts, throughput. Nothing here changes anything.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use punctual::Error;
use punctual::inspect::{Bucket, Counts, ExecutionFilter, JobFilter, MessageFilter, Page, Paged};
use punctual::jiff::{SignedDuration, Timestamp};
use punctual::model::{
    BatchId, Ending, Execution, ExecutionId, JobName, JobRecord, Key, MessageId, MessageRecord,
    Queue, State, Topic,
};
use punctual::uuid::Uuid;
use punctual_rows::code::{Code as _, endings_named};
use punctual_rows::instant::{instant, micros, micros_up};
use punctual_rows::job::read;
use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};

use crate::due::oldest;
use crate::fault::Tried;
use crate::jobs::phase;
use crate::looked::{DEPTHS, down_to, floor_of_executions, floor_of_messages};
use crate::row::{EXECUTION_COLUMNS, NEAR, Table, execution_of, first_id, record_of};

/// How many executions ended in each way in each bucket: those that lie by their time, and the strays.
pub(crate) const THROUGHPUT: &str = "SELECT (ended_at - ?1) / ?2 AS bucket, ending, count(*) FROM \
     (SELECT ended_at, ending FROM punctual_history WHERE id >= ?3 AND strayed_at IS NULL \
     UNION ALL SELECT ended_at, ending FROM punctual_history WHERE strayed_at >= ?1) \
     WHERE ended_at >= ?1 AND ending IS NOT NULL GROUP BY bucket, ending ORDER BY bucket, ending";

/// How many messages of a batch are in each state.
pub(crate) const BATCH: &str = "SELECT state, count(*) FROM punctual_message WHERE batch = ?1 GROUP BY state \
     UNION ALL SELECT 3, count(*) FROM punctual_dead WHERE batch = ?1 \
     UNION ALL SELECT state, count(*) FROM punctual_history WHERE batch = ?1 AND state >= 0 GROUP BY state";

/// What is running, by the index that holds nothing else; few compared with those that wait.
const RUNNING: &str = "punctual_message INDEXED BY punctual_message_running WHERE state = 1";

/// Conditions and the values they compare with.
#[derive(Default)]
struct Conditions {
    sql: String,
    values: Vec<Value>,
}

impl Conditions {
    /// Only rows whose column compares with a value.
    fn only(&mut self, comparison: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.values.push(value.into());
            let _ = write!(self.sql, " AND {comparison} ?{}", self.values.len());
        }
    }

    /// Newest id first, at most so many.
    fn newest(&mut self, id: &str, limit: usize) {
        self.values.push(Value::Integer(i64::try_from(limit).unwrap_or(i64::MAX)));
        let _ = write!(self.sql, " ORDER BY {id} DESC LIMIT ?{}", self.values.len());
    }

    /// Only rows whose column is one of these numbers.
    fn one_of(&mut self, column: &str, codes: &[i16]) {
        let codes: Vec<String> = codes.iter().map(ToString::to_string).collect();
        let _ = write!(self.sql, " AND {column} IN ({})", codes.join(", "));
    }
}

/// One message, wherever it is.
pub(crate) fn message(connection: &Connection, id: MessageId) -> Tried<Option<MessageRecord>> {
    let [alive, dead, finished] =
        Table::ALL.map(|table| format!("SELECT {} FROM {}", table.columns(), table.row()));
    let sql = format!("{alive} UNION ALL {dead} UNION ALL {finished} LIMIT 1");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([id.as_uuid().as_bytes()])?;
    rows.next()?.map(record_of).transpose()
}

/// Messages that match, newest id first, from all three tables.
pub(crate) fn messages(
    connection: &Connection,
    filter: &MessageFilter,
    page: Page<MessageId>,
) -> Tried<Paged<MessageRecord, MessageId>> {
    let limit = page.bounded();
    let mut looked = Paged { rows: Vec::new(), next: None };
    for depth in DEPTHS {
        let floor = floor_of_messages(connection, filter, page, depth)?;
        let found = messages_from(connection, filter, page, floor)?;
        let is_full = found.len() > limit;
        let paged = paged(found, limit, |record| record.message.id);
        looked = down_to(paged, floor.map(MessageId::from_uuid));
        if is_full || floor.is_none() {
            break;
        }
    }
    Ok(looked)
}

/// The same down to an id, newest first, and one more than fit on the page.
fn messages_from(
    connection: &Connection,
    filter: &MessageFilter,
    page: Page<MessageId>,
    floor: Option<Uuid>,
) -> Tried<Vec<MessageRecord>> {
    let mut found: Vec<MessageRecord> = Vec::new();
    for table in Table::ALL {
        let Some((sql, values)) = messages_sql(filter, table, page, floor) else { continue };
        let mut statement = connection.prepare_cached(&sql)?;
        let mut rows = statement.query(params_from_iter(values))?;
        while let Some(row) = rows.next()? {
            found.push(record_of(row)?);
        }
    }
    found.sort_unstable_by_key(|record| std::cmp::Reverse(record.message.id));
    Ok(found)
}

/// The statement for the rows of a table, and its values; nothing when the table has none of them.
pub(crate) fn messages_sql(
    filter: &MessageFilter,
    table: Table,
    page: Page<MessageId>,
    floor: Option<Uuid>,
) -> Option<(String, Vec<Value>)> {
    let wanted: Vec<i16> = wanted(filter, table).into_iter().map(State::code).collect();
    if wanted.is_empty() {
        return None;
    }
    let mut conditions = conditions_of(filter, table.id(), page);
    if table != Table::Dead && !filter.states.is_empty() {
        conditions.one_of("state", &wanted);
    }
    let blob = |id: Uuid| id.as_bytes().to_vec();
    conditions.only(&format!("{} >=", table.id()), floor.map(blob));
    conditions.newest(table.id(), page.bounded() + 1);
    let is_running = table == Table::Message && filter.states == [State::Running];
    let rows = if is_running { RUNNING } else { table.rows() };
    let sql = format!("SELECT {} FROM {rows}{}", table.columns(), conditions.sql);
    Some((sql, conditions.values))
}

fn conditions_of(filter: &MessageFilter, id: &str, page: Page<MessageId>) -> Conditions {
    let text = |text: &str| text.to_owned();
    let mut conditions = Conditions::default();
    conditions.only(&format!("{id} <"), page.after.map(|id| id.as_uuid().as_bytes().to_vec()));
    conditions.only("queue =", filter.queue.as_ref().map(Queue::as_str).map(text));
    conditions.only("topic =", filter.topic.as_ref().map(Topic::as_str).map(text));
    conditions.only("key =", filter.key.as_ref().map(Key::as_str).map(text));
    conditions.only("job =", filter.job.as_ref().map(JobName::as_str).map(text));
    conditions.only("batch =", filter.batch.map(|id| id.as_uuid().as_bytes().to_vec()));
    conditions
}

/// The states a filter wants from a table.
fn wanted(filter: &MessageFilter, table: Table) -> Vec<State> {
    let here: &[State] = match table {
        Table::Message => &[State::Pending, State::Running],
        Table::Dead => &[State::Dead],
        Table::Finished => &[State::Done, State::Cancelled],
    };
    let is_wanted = |state: &State| filter.states.is_empty() || filter.states.contains(state);
    here.iter().copied().filter(is_wanted).collect()
}

fn paged<Row, Id>(mut rows: Vec<Row>, limit: usize, id: impl Fn(&Row) -> Id) -> Paged<Row, Id> {
    let more = rows.len() > limit;
    rows.truncate(limit);
    Paged { next: rows.last().filter(|_| more).map(id), rows }
}

/// Executions that match, newest id first.
pub(crate) fn executions(
    connection: &Connection,
    filter: &ExecutionFilter,
    page: Page<ExecutionId>,
) -> Tried<Paged<Execution, ExecutionId>> {
    let limit = page.bounded();
    let mut looked = Paged { rows: Vec::new(), next: None };
    for depth in DEPTHS {
        let floor = floor_of_executions(connection, filter, page, depth)?;
        let found = executions_from(connection, filter, page, floor)?;
        let is_full = found.len() > limit;
        let paged = paged(found, limit, |execution| execution.id);
        looked = down_to(paged, floor.map(ExecutionId::from_uuid));
        if is_full || floor.is_none() {
            break;
        }
    }
    Ok(looked)
}

/// The same down to an id, and one more than fit on the page.
fn executions_from(
    connection: &Connection,
    filter: &ExecutionFilter,
    page: Page<ExecutionId>,
    floor: Option<Uuid>,
) -> Tried<Vec<Execution>> {
    let text = |text: &str| text.to_owned();
    let mut conditions = Conditions::default();
    conditions.only("id <", page.after.map(|id| id.as_uuid().as_bytes().to_vec()));
    conditions.only("id >=", floor.map(|id| id.as_bytes().to_vec()));
    conditions.only("message =", filter.message.map(|id| id.as_uuid().as_bytes().to_vec()));
    conditions.only("job =", filter.job.as_ref().map(JobName::as_str).map(text));
    conditions.only("topic =", filter.topic.as_ref().map(Topic::as_str).map(text));
    if !filter.endings.is_empty() {
        conditions.one_of("ending", &endings_named(&filter.endings));
    }
    conditions.newest("id", page.bounded() + 1);
    let sql = format!(
        "SELECT {EXECUTION_COLUMNS} FROM punctual_history WHERE ending IS NOT NULL{}",
        conditions.sql
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(conditions.values))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(execution_of(row)?);
    }
    Ok(found)
}

/// The newest runs of each of some jobs.
pub(crate) fn latest_runs(
    connection: &Connection,
    jobs: &[JobName],
    each: usize,
) -> Tried<Vec<Execution>> {
    let mut filter = ExecutionFilter::runs();
    let mut runs = Vec::new();
    for job in jobs {
        filter.job = Some(job.clone());
        runs.extend(executions(connection, &filter, Page::first(each))?.rows);
    }
    Ok(runs)
}

/// Jobs that match, by name.
pub(crate) fn jobs(connection: &Connection, filter: &JobFilter) -> Tried<Vec<JobRecord>> {
    let mut conditions = Conditions::default();
    conditions.only("app =", filter.app.clone());
    conditions.only("phase =", filter.phase.map(|wanted| phase(wanted).to_owned()));
    let sql =
        format!("SELECT name, record FROM punctual_job WHERE true{} ORDER BY name", conditions.sql);
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(conditions.values))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let record = read(row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?)?;
        if filter.tag.as_ref().is_none_or(|tag| record.job.tags.contains(tag)) {
            found.push(record);
        }
    }
    Ok(found)
}

/// How many messages there are in each state of each queue.
pub(crate) fn counts(connection: &Connection, now: Timestamp) -> Tried<Counts> {
    let sql = "SELECT queue, state, count FROM punctual_count WHERE count > 0";
    let mut counts = Counts::default();
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let state = State::from_code(row.get(1)?)?;
        let count: i64 = row.get(2)?;
        let count = u64::try_from(count).unwrap_or(0);
        counts.messages.insert((Queue::from(row.get::<_, String>(0)?), state), count);
    }
    let sql = "SELECT count(*) FROM punctual_message INDEXED BY punctual_message_running \
               WHERE state = 1 AND lease_until < ?1";
    let stale: i64 =
        connection.prepare_cached(sql)?.query_row([micros_up(now)], |row| row.get(0))?;
    counts.stale = u64::try_from(stale).unwrap_or(0);
    let pending = counts.messages.keys().filter(|(_, state)| *state == State::Pending);
    for (queue, _) in pending {
        let first = oldest(connection, queue)?;
        counts.oldest_due = counts.oldest_due.into_iter().chain(first).min();
    }
    counts.oldest_due = counts.oldest_due.filter(|due_at| *due_at <= now);
    Ok(counts)
}

/// How many messages of a batch are in each state.
pub(crate) fn batch(connection: &Connection, batch: BatchId) -> Tried<BTreeMap<State, u64>> {
    let mut statement = connection.prepare_cached(BATCH)?;
    let mut rows = statement.query([batch.as_uuid().as_bytes()])?;
    let mut counts = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let count: i64 = row.get(1)?;
        if count > 0 {
            counts.insert(State::from_code(row.get(0)?)?, u64::try_from(count).unwrap_or(0));
        }
    }
    Ok(counts)
}

/// The executions since an instant in buckets that start there; empty buckets are left out. The length
/// is rounded up to the microsecond.
pub(crate) fn throughput(
    connection: &Connection,
    since: Timestamp,
    bucket: Duration,
) -> Tried<Vec<Bucket>> {
    if bucket.is_zero() {
        let sentence = "a bucket of no length holds nothing; give it at least a microsecond";
        return Err(Error::invalid(sentence).into());
    }
    let length = i64::try_from(bucket.as_nanos().div_ceil(1_000)).unwrap_or(i64::MAX);
    let since = micros(since);
    let mut statement = connection.prepare_cached(THROUGHPUT)?;
    let first = first_id(since.saturating_sub(NEAR));
    let mut rows = statement.query(params![since, length, first.as_bytes()])?;
    let mut buckets: Vec<Bucket> = Vec::new();
    while let Some(row) = rows.next()? {
        let number: i64 = row.get(0)?;
        let into = SignedDuration::from_micros(number.saturating_mul(length));
        let start = instant(since)?.checked_add(into).unwrap_or(Timestamp::MAX);
        if buckets.last().is_none_or(|last| last.start != start) {
            buckets.push(Bucket { start, endings: BTreeMap::new() });
        }
        let count: i64 = row.get(2)?;
        if let Some(last) = buckets.last_mut() {
            let ending = Ending::from_code(row.get(1)?)?;
            last.endings.insert(ending, u64::try_from(count).unwrap_or(0));
        }
    }
    Ok(buckets)
}
