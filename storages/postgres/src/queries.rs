//! Queries of the inspection API: pages of messages, history and jobs. Statements are assembled from the
//! filter; every value is a parameter.

use punctual::Result;
use punctual::inspect::{ExecutionFilter, JobFilter, MessageFilter, PageRequest, PageResult};
use punctual::model::{
    Execution, ExecutionId, JobName, JobRecord, Key, MessageId, MessageRecord, MessageState, Queue,
    Topic,
};
use punctual::uuid::Uuid;
use punctual_columns::code::{Code, endings_named};
use punctual_columns::job::from_json;
use punctual_columns::page_bounds::{DEPTHS, page as page_of};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::error::StorageError;
use crate::inner::{Inner, attempt};
use crate::operations::jobs::phase_code;
use crate::page_bounds::{floor, scanned_by_executions, scanned_by_messages};
use crate::row::{execution, record};
use crate::session::Session;
use crate::value::Param;

/// Columns of a message, except its id, that all three tables have.
const SENT: &str = "queue, topic, priority, source, exclusive, due_at, planned_at, created_at, \
    key, dedupe, body, extra, attempt, crashes, snoozes, error, progress, checkpoint";

/// Columns of an attempt in the history.
const EXECUTION: &str = "id, message, process, due_at, started_at, ended_at, nominal, attempt, \
    attempts_max, source, ending, topic, queue, key, job, note, log";

/// Conditions with their values.
#[derive(Default)]
struct Conditions {
    texts: Vec<String>,
    values: Vec<(Box<dyn ToSql + Sync + Send>, Type)>,
}

impl Conditions {
    /// Adds a condition in which `?` stands for the value.
    fn add(&mut self, condition: &str, value: impl ToSql + Sync + Send + 'static, of: Type) {
        self.values.push((Box::new(value), of));
        self.texts.push(condition.replace('?', &format!("${}", self.values.len())));
    }

    fn text(&mut self, column: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.add(&format!("{column} = ?"), value.to_owned(), Type::TEXT);
        }
    }

    fn clause(&self) -> String {
        if self.texts.is_empty() { "true".to_owned() } else { self.texts.join(" AND ") }
    }

    fn params(&self) -> Vec<Param<'_>> {
        self.values
            .iter()
            .map(|(value, of)| (&**value as &(dyn ToSql + Sync), of.clone()))
            .collect()
    }
}

impl Inner {
    pub(crate) async fn messages(
        &self,
        filter: &MessageFilter,
        page: PageRequest<MessageId>,
    ) -> Result<PageResult<MessageRecord, MessageId>> {
        let tables = scanned_by_messages(filter);
        let after = page.after.map(MessageId::as_uuid);
        attempt!(self, |session| async {
            let mut found = PageResult { rows: Vec::new(), next: None };
            for depth in DEPTHS {
                let floor = floor(session, &self.schema.quoted, &tables, after, depth).await?;
                let rows = self.messages_from(session, filter, page, floor).await?;
                let is_full = rows.len() > page.bounded();
                let floor = floor.map(MessageId::from_uuid);
                found = page_of(rows, page.bounded(), |row| row.message.id, floor);
                if is_full || floor.is_none() {
                    break;
                }
            }
            Ok(found)
        })
    }

    /// Reads the messages down to an id, and one more than fit on the page.
    async fn messages_from(
        &self,
        session: &Session<'_>,
        filter: &MessageFilter,
        page: PageRequest<MessageId>,
        floor: Option<Uuid>,
    ) -> Result<Vec<MessageRecord>, StorageError> {
        let mut conditions = Conditions::default();
        conditions.text("queue", filter.queue.as_ref().map(Queue::as_str));
        conditions.text("topic", filter.topic.as_ref().map(Topic::as_str));
        conditions.text("key", filter.key.as_ref().map(Key::as_str));
        conditions.text("job", filter.job.as_ref().map(JobName::as_str));
        if let Some(batch) = filter.batch {
            conditions.add("batch = ?", batch.as_uuid(), Type::UUID);
        }
        if filter.planned {
            // The first two conditions are those of an index.
            let planned = format!(
                "job IS NOT NULL AND source IN (3, 4) AND {}.is_planned(source, extra)",
                self.schema.quoted
            );
            conditions.texts.push(planned);
        }
        if let Some(after) = page.after {
            conditions.add("{id} < ?", after.as_uuid(), Type::UUID);
        }
        if let Some(floor) = floor {
            conditions.add("{id} >= ?", floor, Type::UUID);
        }
        let limit = Some(page.bounded() + 1);
        let Some(text) = self.union(&filter.states, &conditions.clause(), limit) else {
            return Ok(Vec::new());
        };
        let rows = session.query_text(&text, &conditions.params()).await?;
        rows.iter().map(record).collect::<Result<Vec<_>, _>>()
    }

    pub(crate) async fn message(&self, id: MessageId) -> Result<Option<MessageRecord>> {
        let text = self.union(&[], "{id} = $1", None).unwrap_or_default();
        let mut rows = attempt!(self, |session| async {
            let rows = session.query_text(&text, &[(&id.as_uuid(), Type::UUID)]).await?;
            rows.iter().map(record).collect::<Result<Vec<_>, _>>()
        })?;
        Ok(rows.pop())
    }

    /// Builds the query over the tables that can contain these states, newest id first; returns none when no
    /// table can. In the clause, `{id}` stands for the id of the message.
    fn union(&self, states: &[MessageState], clause: &str, limit: Option<usize>) -> Option<String> {
        let schema = &self.schema.quoted;
        let has = |of: &[MessageState]| {
            states.is_empty() || of.iter().any(|state| states.contains(state))
        };
        let codes: Vec<String> = states.iter().map(|state| state.code().to_string()).collect();
        let only = if states.is_empty() {
            String::new()
        } else {
            format!(" AND state IN ({})", codes.join(", "))
        };
        let order = limit.map_or(String::new(), |limit| format!(" ORDER BY id DESC LIMIT {limit}"));
        let here = clause.replace("{id}", "id");
        let mut parts = Vec::new();
        if has(&[MessageState::Pending, MessageState::Running]) {
            parts.push(format!(
                "(SELECT id, {SENT}, state, owner, token, lease_until, cancel_requested, \
                 NULL::int2 AS reason, NULL::timestamptz AS ended_at \
                 FROM {schema}.message WHERE {here}{only}{order})"
            ));
        }
        let lease = "NULL::uuid AS owner, NULL::int8 AS token, NULL::timestamptz AS lease_until, \
                     false AS cancel_requested";
        if has(&[MessageState::Done, MessageState::Cancelled]) {
            parts.push(format!(
                "(SELECT message AS id, {SENT}, state, {lease}, NULL::int2 AS reason, ended_at \
                 FROM {schema}.history WHERE state IS NOT NULL AND {}{only}{order})",
                clause.replace("{id}", "message")
            ));
        }
        if has(&[MessageState::Dead]) {
            parts.push(format!(
                "(SELECT id, {SENT}, 3::int2 AS state, {lease}, reason, ended_at \
                 FROM {schema}.dead WHERE {here}{order})"
            ));
        }
        (!parts.is_empty())
            .then(|| format!("SELECT * FROM ({}) AS m{order}", parts.join(" UNION ALL ")))
    }

    pub(crate) async fn executions(
        &self,
        filter: &ExecutionFilter,
        page: PageRequest<ExecutionId>,
    ) -> Result<PageResult<Execution, ExecutionId>> {
        let tables = scanned_by_executions(filter);
        let after = page.after.map(ExecutionId::as_uuid);
        attempt!(self, |session| async {
            let mut found = PageResult { rows: Vec::new(), next: None };
            for depth in DEPTHS {
                let floor = floor(session, &self.schema.quoted, &tables, after, depth).await?;
                let rows = self.executions_from(session, filter, page, floor).await?;
                let is_full = rows.len() > page.bounded();
                let floor = floor.map(ExecutionId::from_uuid);
                found = page_of(rows, page.bounded(), |row| row.id, floor);
                if is_full || floor.is_none() {
                    break;
                }
            }
            Ok(found)
        })
    }

    /// Reads the executions down to an id, and one more than fit on the page.
    async fn executions_from(
        &self,
        session: &Session<'_>,
        filter: &ExecutionFilter,
        page: PageRequest<ExecutionId>,
        floor: Option<Uuid>,
    ) -> Result<Vec<Execution>, StorageError> {
        let mut conditions = Conditions::default();
        if let Some(message) = filter.message {
            conditions.add("message = ?", message.as_uuid(), Type::UUID);
        }
        conditions.text("job", filter.job.as_ref().map(JobName::as_str));
        conditions.text("topic", filter.topic.as_ref().map(Topic::as_str));
        if !filter.endings.is_empty() {
            conditions.add("ending = ANY(?)", endings_named(&filter.endings), Type::INT2_ARRAY);
        }
        if let Some(after) = page.after {
            conditions.add("id < ?", after.as_uuid(), Type::UUID);
        }
        if let Some(floor) = floor {
            conditions.add("id >= ?", floor, Type::UUID);
        }
        let (schema, clause) = (&self.schema.quoted, conditions.clause());
        let order = format!("ORDER BY id DESC LIMIT {}", page.bounded() + 1);
        let part = |of: &str| {
            format!(
                "(SELECT {EXECUTION} FROM {schema}.history WHERE id IS NOT NULL AND {clause}{of} {order})"
            )
        };
        // The attempts of a message are in two indexes, by whether the message ended with them.
        let text = match filter.message {
            None => part(""),
            Some(_) => format!(
                "{} UNION ALL {} {order}",
                part(" AND state IS NULL"),
                part(" AND state IS NOT NULL")
            ),
        };
        let rows = session.query_text(&text, &conditions.params()).await?;
        rows.iter().map(execution).collect::<Result<Vec<_>, _>>()
    }

    /// Reads the latest runs of jobs: one index scan for each job, in one statement.
    pub(crate) async fn latest_runs(
        &self,
        jobs: &[JobName],
        each: usize,
    ) -> Result<Vec<Execution>> {
        let text = format!(
            "SELECT {EXECUTION} FROM unnest($1::text[]) WITH ORDINALITY AS of(name, place) \
             CROSS JOIN LATERAL (SELECT h.* FROM {}.history h \
                WHERE h.id IS NOT NULL AND h.job = of.name AND h.ending = ANY($2) \
                ORDER BY h.id DESC LIMIT {}) AS h ORDER BY place, id DESC",
            self.schema.quoted,
            PageRequest::<ExecutionId>::first(each).bounded(),
        );
        let names: Vec<&str> = jobs.iter().map(JobName::as_str).collect();
        let endings = endings_named(&ExecutionFilter::runs().endings);
        attempt!(self, |session| async {
            let params: [Param<'_>; 2] = [(&names, Type::TEXT_ARRAY), (&endings, Type::INT2_ARRAY)];
            let rows = session.query_text(&text, &params).await?;
            rows.iter().map(execution).collect::<Result<Vec<_>, _>>()
        })
    }

    pub(crate) async fn jobs(&self, filter: &JobFilter) -> Result<Vec<JobRecord>> {
        let mut conditions = Conditions::default();
        conditions.text("app", filter.app.as_deref());
        if let Some(phase) = filter.phase {
            conditions.add("phase = ?", phase_code(phase), Type::INT2);
        }
        let text = format!(
            "SELECT name, record::text FROM {}.job WHERE {} ORDER BY name",
            self.schema.quoted,
            conditions.clause()
        );
        let mut records = attempt!(self, |session| async {
            let rows = session.query_text(&text, &conditions.params()).await?;
            let read = |row: &Row| -> Result<JobRecord, StorageError> {
                Ok(from_json(row.try_get(0)?, row.try_get(1)?)?)
            };
            rows.iter().map(read).collect::<Result<Vec<_>, StorageError>>()
        })?;
        if let Some(tag) = &filter.tag {
            records.retain(|record| record.job.tags.contains(tag));
        }
        Ok(records)
    }
}
