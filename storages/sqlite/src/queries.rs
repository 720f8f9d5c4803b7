//! Queries of the inspection API: pages, one message, jobs. Nothing here writes.

use std::fmt::Write as _;

use punctual::inspect::{ExecutionFilter, JobFilter, MessageFilter, PageRequest, PageResult};
use punctual::model::{
    Execution, ExecutionId, JobName, JobRecord, Key, MessageId, MessageRecord, MessageState, Queue,
    Topic,
};
use punctual::uuid::Uuid;
use punctual_columns::code::{Code as _, endings_named};
use punctual_columns::job::from_json;
use punctual_columns::page_bounds::{DEPTHS, page as page_of};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use crate::error::StorageResult;
use crate::operations::jobs::phase;
use crate::page_bounds::{floor_of_executions, floor_of_messages};
use crate::row::{EXECUTION_COLUMNS, Table, execution_of, record_of};

/// Running messages, by the index that contains nothing else; few compared with the pending ones.
const RUNNING: &str = "punctual_message INDEXED BY punctual_message_running WHERE state = 1";

/// Planned one-time jobs that are alive, and redriven runs of jobs, by the index that contains nothing else.
const PLANNED_ROWS: &str = "punctual_message INDEXED BY punctual_message_planned WHERE true";

/// Condition for messages of planned one-time jobs: the condition of the index of alive ones, and an occurrence
/// without a schedule.
const PLANNED: &str = " AND job IS NOT NULL AND source IN (3, 4) \
     AND (source = 3 OR json_extract(extra, '$.occurrence.schedule') IS NULL)";

/// Conditions and the values they compare with.
#[derive(Default)]
struct Conditions {
    sql: String,
    values: Vec<Value>,
}

impl Conditions {
    /// Adds a comparison of a column with a value, if there is one.
    fn only(&mut self, comparison: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.values.push(value.into());
            let _ = write!(self.sql, " AND {comparison} ?{}", self.values.len());
        }
    }

    /// Adds order and limit: newest id first.
    fn newest(&mut self, id: &str, limit: usize) {
        self.values.push(Value::Integer(i64::try_from(limit).unwrap_or(i64::MAX)));
        let _ = write!(self.sql, " ORDER BY {id} DESC LIMIT ?{}", self.values.len());
    }

    /// Adds the condition that a column is one of these numbers.
    fn one_of(&mut self, column: &str, codes: &[i16]) {
        let codes: Vec<String> = codes.iter().map(ToString::to_string).collect();
        let _ = write!(self.sql, " AND {column} IN ({})", codes.join(", "));
    }
}

/// Returns one message, from any table.
pub(crate) fn message(
    connection: &Connection,
    id: MessageId,
) -> StorageResult<Option<MessageRecord>> {
    let [alive, dead, finished] =
        Table::ALL.map(|table| format!("SELECT {} FROM {}", table.columns(), table.row()));
    let sql = format!("{alive} UNION ALL {dead} UNION ALL {finished} LIMIT 1");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([id.as_uuid().as_bytes()])?;
    rows.next()?.map(record_of).transpose()
}

/// Returns a page of matching messages, newest id first, from all three tables.
pub(crate) fn messages(
    connection: &Connection,
    filter: &MessageFilter,
    page: PageRequest<MessageId>,
) -> StorageResult<PageResult<MessageRecord, MessageId>> {
    let limit = page.bounded();
    let mut found_page = PageResult { rows: Vec::new(), next: None };
    for depth in DEPTHS {
        let floor = floor_of_messages(connection, filter, page, depth)?;
        let found = messages_from(connection, filter, page, floor)?;
        let is_full = found.len() > limit;
        let floor = floor.map(MessageId::from_uuid);
        found_page = page_of(found, limit, |record| record.message.id, floor);
        if is_full || floor.is_none() {
            break;
        }
    }
    Ok(found_page)
}

/// Returns the matching messages down to an id, newest first, and one more than fit on the page.
fn messages_from(
    connection: &Connection,
    filter: &MessageFilter,
    page: PageRequest<MessageId>,
    floor: Option<Uuid>,
) -> StorageResult<Vec<MessageRecord>> {
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

/// Builds the statement for the rows of a table, and its values; none when the table has no matching state.
pub(crate) fn messages_sql(
    filter: &MessageFilter,
    table: Table,
    page: PageRequest<MessageId>,
    floor: Option<Uuid>,
) -> Option<(String, Vec<Value>)> {
    let wanted: Vec<i16> = wanted(filter, table).into_iter().map(MessageState::code).collect();
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
    let is_named = filter.key.is_some() || filter.job.is_some() || filter.batch.is_some();
    let rows = match table {
        Table::Message if filter.states == [MessageState::Running] => RUNNING,
        Table::Message if filter.planned && !is_named => PLANNED_ROWS,
        _ => table.rows(),
    };
    let sql = format!("SELECT {} FROM {rows}{}", table.columns(), conditions.sql);
    Some((sql, conditions.values))
}

fn conditions_of(filter: &MessageFilter, id: &str, page: PageRequest<MessageId>) -> Conditions {
    let text = |text: &str| text.to_owned();
    let mut conditions = Conditions::default();
    conditions.only(&format!("{id} <"), page.after.map(|id| id.as_uuid().as_bytes().to_vec()));
    conditions.only("queue =", filter.queue.as_ref().map(Queue::as_str).map(text));
    conditions.only("topic =", filter.topic.as_ref().map(Topic::as_str).map(text));
    conditions.only("key =", filter.key.as_ref().map(Key::as_str).map(text));
    conditions.only("job =", filter.job.as_ref().map(JobName::as_str).map(text));
    conditions.only("batch =", filter.batch.map(|id| id.as_uuid().as_bytes().to_vec()));
    if filter.planned {
        conditions.sql.push_str(PLANNED);
    }
    conditions
}

/// Returns the states of a table that match a filter.
fn wanted(filter: &MessageFilter, table: Table) -> Vec<MessageState> {
    let is_wanted =
        |state: &MessageState| filter.states.is_empty() || filter.states.contains(state);
    table.states().iter().copied().filter(is_wanted).collect()
}

/// Returns a page of matching executions, newest id first.
pub(crate) fn executions(
    connection: &Connection,
    filter: &ExecutionFilter,
    page: PageRequest<ExecutionId>,
) -> StorageResult<PageResult<Execution, ExecutionId>> {
    let limit = page.bounded();
    let mut found_page = PageResult { rows: Vec::new(), next: None };
    for depth in DEPTHS {
        let floor = floor_of_executions(connection, filter, page, depth)?;
        let found = executions_from(connection, filter, page, floor)?;
        let is_full = found.len() > limit;
        let floor = floor.map(ExecutionId::from_uuid);
        found_page = page_of(found, limit, |execution| execution.id, floor);
        if is_full || floor.is_none() {
            break;
        }
    }
    Ok(found_page)
}

/// Returns the matching executions down to an id, and one more than fit on the page.
fn executions_from(
    connection: &Connection,
    filter: &ExecutionFilter,
    page: PageRequest<ExecutionId>,
    floor: Option<Uuid>,
) -> StorageResult<Vec<Execution>> {
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

/// Returns the newest runs of each of several jobs.
pub(crate) fn latest_runs(
    connection: &Connection,
    jobs: &[JobName],
    each: usize,
) -> StorageResult<Vec<Execution>> {
    let mut filter = ExecutionFilter::runs();
    let mut runs = Vec::new();
    for job in jobs {
        filter.job = Some(job.clone());
        runs.extend(executions(connection, &filter, PageRequest::first(each))?.rows);
    }
    Ok(runs)
}

/// Returns the matching jobs, by name.
pub(crate) fn jobs(connection: &Connection, filter: &JobFilter) -> StorageResult<Vec<JobRecord>> {
    let mut conditions = Conditions::default();
    conditions.only("app =", filter.app.clone());
    conditions.only("phase =", filter.phase.map(|wanted| phase(wanted).to_owned()));
    let sql =
        format!("SELECT name, record FROM punctual_job WHERE true{} ORDER BY name", conditions.sql);
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(conditions.values))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let record = from_json(row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?)?;
        if filter.tag.as_ref().is_none_or(|tag| record.job.tags.contains(tag)) {
            found.push(record);
        }
    }
    Ok(found)
}
