//! Reading for people: pages of messages, history and jobs. Statements are put together from the filter; every
//! value is a parameter.

use punctual::Result;
use punctual::inspect::{ExecutionFilter, JobFilter, MessageFilter, Page, Paged};
use punctual::model::{
    Execution, ExecutionId, JobName, JobRecord, Key, MessageId, MessageRecord, Queue, State, Topic,
};
use punctual::uuid::Uuid;
use punctual_rows::code::{Code, endings_named};
use punctual_rows::job::read;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::columns::{execution, record};
use crate::failure::Failure;
use crate::inner::{Inner, attempt};
use crate::jobs::phase_code;
use crate::looked::{DEPTHS, floor, paged, walked_by_executions, walked_by_messages};
use crate::session::Session;
use crate::value::Param;

/// What all three tables have of a message, apart from its id.
const SENT: &str = "queue, topic, priority, source, exclusive, due_at, planned_at, created_at, \
    key, dedupe, body, extra, attempt, crashes, snoozes, error, progress, checkpoint";

/// What the history has of an attempt.
const EXECUTION: &str = "id, message, process, due_at, started_at, ended_at, nominal, attempt, \
    attempts_max, source, ending, topic, queue, key, job, note, log";

/// Conditions with their values.
#[derive(Default)]
struct Wanted {
    conditions: Vec<String>,
    values: Vec<(Box<dyn ToSql + Sync + Send>, Type)>,
}

impl Wanted {
    /// Adds a condition in which `?` stands for the value.
    fn add(&mut self, condition: &str, value: impl ToSql + Sync + Send + 'static, of: Type) {
        self.values.push((Box::new(value), of));
        self.conditions.push(condition.replace('?', &format!("${}", self.values.len())));
    }

    fn text(&mut self, column: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.add(&format!("{column} = ?"), value.to_owned(), Type::TEXT);
        }
    }

    fn clause(&self) -> String {
        if self.conditions.is_empty() { "true".to_owned() } else { self.conditions.join(" AND ") }
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
        page: Page<MessageId>,
    ) -> Result<Paged<MessageRecord, MessageId>> {
        let tables = walked_by_messages(filter);
        let after = page.after.map(MessageId::as_uuid);
        attempt!(self, |held| async {
            let mut looked = Paged { rows: Vec::new(), next: None };
            for depth in DEPTHS {
                let floor = floor(held, &self.schema.quoted, &tables, after, depth).await?;
                let rows = self.messages_from(held, filter, page, floor).await?;
                let is_full = rows.len() > page.bounded();
                let floor = floor.map(MessageId::from_uuid);
                looked = paged(rows, page.bounded(), |row| row.message.id, floor);
                if is_full || floor.is_none() {
                    break;
                }
            }
            Ok(looked)
        })
    }

    /// Those down to an id, and one more than fit on the page.
    async fn messages_from(
        &self,
        held: &Session<'_>,
        filter: &MessageFilter,
        page: Page<MessageId>,
        floor: Option<Uuid>,
    ) -> Result<Vec<MessageRecord>, Failure> {
        let mut wanted = Wanted::default();
        wanted.text("queue", filter.queue.as_ref().map(Queue::as_str));
        wanted.text("topic", filter.topic.as_ref().map(Topic::as_str));
        wanted.text("key", filter.key.as_ref().map(Key::as_str));
        wanted.text("job", filter.job.as_ref().map(JobName::as_str));
        if let Some(batch) = filter.batch {
            wanted.add("batch = ?", batch.as_uuid(), Type::UUID);
        }
        if let Some(after) = page.after {
            wanted.add("{id} < ?", after.as_uuid(), Type::UUID);
        }
        if let Some(floor) = floor {
            wanted.add("{id} >= ?", floor, Type::UUID);
        }
        let limit = Some(page.bounded() + 1);
        let Some(text) = self.union(&filter.states, &wanted.clause(), limit) else {
            return Ok(Vec::new());
        };
        let rows = held.ask(&text, &wanted.params()).await?;
        rows.iter().map(record).collect::<Result<Vec<_>, _>>()
    }

    pub(crate) async fn message(&self, id: MessageId) -> Result<Option<MessageRecord>> {
        let text = self.union(&[], "{id} = $1", None).unwrap_or_default();
        let mut rows = attempt!(self, |held| async {
            let rows = held.ask(&text, &[(&id.as_uuid(), Type::UUID)]).await?;
            rows.iter().map(record).collect::<Result<Vec<_>, _>>()
        })?;
        Ok(rows.pop())
    }

    /// The tables that can hold these states, newest id first; nothing when none can. In the clause,
    /// `{id}` stands for the id of the message.
    fn union(&self, states: &[State], clause: &str, limit: Option<usize>) -> Option<String> {
        let schema = &self.schema.quoted;
        let has = |of: &[State]| states.is_empty() || of.iter().any(|state| states.contains(state));
        let codes: Vec<String> = states.iter().map(|state| state.code().to_string()).collect();
        let only = if states.is_empty() {
            String::new()
        } else {
            format!(" AND state IN ({})", codes.join(", "))
        };
        let order = limit.map_or(String::new(), |limit| format!(" ORDER BY id DESC LIMIT {limit}"));
        let here = clause.replace("{id}", "id");
        let mut parts = Vec::new();
        if has(&[State::Pending, State::Running]) {
            parts.push(format!(
                "(SELECT id, {SENT}, state, owner, token, lease_until, cancel_requested, \
                 NULL::int2 AS reason, NULL::timestamptz AS ended_at \
                 FROM {schema}.message WHERE {here}{only}{order})"
            ));
        }
        let lease = "NULL::uuid AS owner, NULL::int8 AS token, NULL::timestamptz AS lease_until, \
                     false AS cancel_requested";
        if has(&[State::Done, State::Cancelled]) {
            parts.push(format!(
                "(SELECT message AS id, {SENT}, state, {lease}, NULL::int2 AS reason, ended_at \
                 FROM {schema}.history WHERE state IS NOT NULL AND {}{only}{order})",
                clause.replace("{id}", "message")
            ));
        }
        if has(&[State::Dead]) {
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
        page: Page<ExecutionId>,
    ) -> Result<Paged<Execution, ExecutionId>> {
        let tables = walked_by_executions(filter);
        let after = page.after.map(ExecutionId::as_uuid);
        attempt!(self, |held| async {
            let mut looked = Paged { rows: Vec::new(), next: None };
            for depth in DEPTHS {
                let floor = floor(held, &self.schema.quoted, &tables, after, depth).await?;
                let rows = self.executions_from(held, filter, page, floor).await?;
                let is_full = rows.len() > page.bounded();
                let floor = floor.map(ExecutionId::from_uuid);
                looked = paged(rows, page.bounded(), |row| row.id, floor);
                if is_full || floor.is_none() {
                    break;
                }
            }
            Ok(looked)
        })
    }

    /// Those down to an id, and one more than fit on the page.
    async fn executions_from(
        &self,
        held: &Session<'_>,
        filter: &ExecutionFilter,
        page: Page<ExecutionId>,
        floor: Option<Uuid>,
    ) -> Result<Vec<Execution>, Failure> {
        let mut wanted = Wanted::default();
        if let Some(message) = filter.message {
            wanted.add("message = ?", message.as_uuid(), Type::UUID);
        }
        wanted.text("job", filter.job.as_ref().map(JobName::as_str));
        wanted.text("topic", filter.topic.as_ref().map(Topic::as_str));
        if !filter.endings.is_empty() {
            wanted.add("ending = ANY(?)", endings_named(&filter.endings), Type::INT2_ARRAY);
        }
        if let Some(after) = page.after {
            wanted.add("id < ?", after.as_uuid(), Type::UUID);
        }
        if let Some(floor) = floor {
            wanted.add("id >= ?", floor, Type::UUID);
        }
        let (schema, clause) = (&self.schema.quoted, wanted.clause());
        let order = format!("ORDER BY id DESC LIMIT {}", page.bounded() + 1);
        let part = |of: &str| {
            format!(
                "(SELECT {EXECUTION} FROM {schema}.history WHERE id IS NOT NULL AND {clause}{of} {order})"
            )
        };
        // The attempts of a message are in two indexes, by whether it ended with them.
        let text = match filter.message {
            None => part(""),
            Some(_) => format!(
                "{} UNION ALL {} {order}",
                part(" AND state IS NULL"),
                part(" AND state IS NOT NULL")
            ),
        };
        let rows = held.ask(&text, &wanted.params()).await?;
        rows.iter().map(execution).collect::<Result<Vec<_>, _>>()
    }

    /// One walk of the index for each job, in one statement.
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
            Page::<ExecutionId>::first(each).bounded(),
        );
        let names: Vec<&str> = jobs.iter().map(JobName::as_str).collect();
        let endings = endings_named(&ExecutionFilter::runs().endings);
        attempt!(self, |held| async {
            let params: [Param<'_>; 2] = [(&names, Type::TEXT_ARRAY), (&endings, Type::INT2_ARRAY)];
            let rows = held.ask(&text, &params).await?;
            rows.iter().map(execution).collect::<Result<Vec<_>, _>>()
        })
    }

    pub(crate) async fn jobs(&self, filter: &JobFilter) -> Result<Vec<JobRecord>> {
        let mut wanted = Wanted::default();
        wanted.text("app", filter.app.as_deref());
        if let Some(phase) = filter.phase {
            wanted.add("phase = ?", phase_code(phase), Type::INT2);
        }
        let text = format!(
            "SELECT name, record::text FROM {}.job WHERE {} ORDER BY name",
            self.schema.quoted,
            wanted.clause()
        );
        let mut records = attempt!(self, |held| async {
            let rows = held.ask(&text, &wanted.params()).await?;
            let read = |row: &Row| -> Result<JobRecord, Failure> {
                Ok(read(row.try_get(0)?, row.try_get(1)?)?)
            };
            rows.iter().map(read).collect::<Result<Vec<_>, Failure>>()
        })?;
        if let Some(tag) = &filter.tag {
            records.retain(|record| record.job.tags.contains(tag));
        }
        Ok(records)
    }
}
