//! Reading for people: pages, counts, history. Statements are put together from the filter; every
//! value is a parameter.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual::inspect::{Bucket, Counts, ExecutionFilter, JobFilter, MessageFilter, Page, Paged};
use punctual::jiff::Timestamp;
use punctual::model::{
    BatchId, Ending, Execution, ExecutionId, JobName, JobRecord, Key, MessageId, MessageRecord,
    Queue, State, Topic,
};
use punctual::{Error, Result};
use punctual_rows::code::{Code, endings_named};
use punctual_rows::instant::{instant, micros, micros_up};
use punctual_rows::job::read;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::columns::{execution, record};
use crate::failure::Failure;
use crate::inner::{Inner, attempt};
use crate::jobs::phase_code;
use crate::session::Session;
use crate::value::{Micros, Param};

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
        let limit = page.bounded();
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
        let Some(text) = self.union(&filter.states, &wanted.clause(), Some(limit + 1)) else {
            return Ok(Paged { rows: Vec::new(), next: None });
        };
        let rows = attempt!(self, |held| async {
            let rows = held.ask(&text, &wanted.params()).await?;
            rows.iter().map(record).collect::<Result<Vec<_>, _>>()
        })?;
        Ok(paged(rows, limit, |row| row.message.id))
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
        let limit = page.bounded();
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
        let (schema, clause) = (&self.schema.quoted, wanted.clause());
        let order = format!("ORDER BY id DESC LIMIT {}", limit + 1);
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
        let rows = attempt!(self, |held| async {
            let rows = held.ask(&text, &wanted.params()).await?;
            rows.iter().map(execution).collect::<Result<Vec<_>, _>>()
        })?;
        Ok(paged(rows, limit, |row| row.id))
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

    pub(crate) async fn counts(&self, now: Timestamp) -> Result<Counts> {
        attempt!(self, |held| async {
            // A whole table is read faster in its own order than along an index.
            held.begin().await?;
            held.client().batch_execute("SET LOCAL enable_seqscan = on").await?;
            let counts = self.count(held, now).await?;
            held.commit().await?;
            Ok(counts)
        })
    }

    async fn count(&self, held: &Session<'_>, now: Timestamp) -> Result<Counts, Failure> {
        let schema = &self.schema.quoted;
        let text = format!(
            "SELECT queue, state, count(*), min(due_at) FROM {schema}.message GROUP BY queue, state \
             UNION ALL SELECT queue, state, count(*), NULL FROM {schema}.history \
             WHERE state IS NOT NULL GROUP BY queue, state \
             UNION ALL SELECT queue, 3::int2, count(*), NULL FROM {schema}.dead GROUP BY queue"
        );
        let mut counts = Counts::default();
        let mut oldest: Option<i64> = None;
        for row in held.ask(&text, &[]).await? {
            let queue = Queue::from(row.try_get::<_, String>(0)?);
            let state = State::from_code(row.try_get(1)?)?;
            let count = u64::try_from(row.try_get::<_, i64>(2)?).unwrap_or_default();
            *counts.messages.entry((queue, state)).or_default() += count;
            if state == State::Pending {
                let due = row.try_get::<_, Option<Micros>>(3)?.map(|at| at.0);
                oldest = oldest.into_iter().chain(due).min();
            }
        }
        let stale =
            format!("SELECT count(*) FROM {schema}.message WHERE state = 1 AND lease_until < $1");
        let rows = held.ask(&stale, &[(&Micros(micros_up(now)), Type::TIMESTAMPTZ)]).await?;
        let stale: i64 = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
        counts.stale = u64::try_from(stale).unwrap_or_default();
        let oldest = oldest.filter(|due| *due <= micros(now));
        counts.oldest_due = oldest.map(instant).transpose()?;
        Ok(counts)
    }

    pub(crate) async fn batch(&self, batch: BatchId) -> Result<BTreeMap<State, u64>> {
        let schema = &self.schema.quoted;
        let text = format!(
            "SELECT state, count(*) FROM ( \
             SELECT state FROM {schema}.message WHERE batch = $1 \
             UNION ALL SELECT state FROM {schema}.history WHERE batch = $1 AND state IS NOT NULL \
             UNION ALL SELECT 3::int2 FROM {schema}.dead WHERE batch = $1) AS m GROUP BY state"
        );
        attempt!(self, |held| async {
            let rows = held.ask(&text, &[(&batch.as_uuid(), Type::UUID)]).await?;
            let read = |row: &Row| -> Result<(State, u64), Failure> {
                let count = u64::try_from(row.try_get::<_, i64>(1)?).unwrap_or_default();
                Ok((State::from_code(row.try_get(0)?)?, count))
            };
            rows.iter().map(read).collect()
        })
    }

    pub(crate) async fn throughput(
        &self,
        since: Timestamp,
        bucket: Duration,
    ) -> Result<Vec<Bucket>> {
        if bucket.is_zero() {
            return Err(Error::invalid(
                "a bucket of no length holds nothing; give it at least a microsecond",
            ));
        }
        // Columns hold microseconds, so a bucket is at least one long.
        let length = i64::try_from(bucket.as_micros()).unwrap_or(i64::MAX).max(1);
        let start = micros_up(since);
        let text = format!(
            "SELECT ((extract(epoch FROM ended_at) * 1000000)::int8 - $2) / $3 AS bucket, \
             ending, count(*) FROM {}.history WHERE ended_at >= $1 AND id IS NOT NULL \
             GROUP BY 1, 2 ORDER BY 1",
            self.schema.quoted
        );
        let (first, number) = (Micros(start), start);
        attempt!(self, |held| async {
            held.begin().await?;
            held.client().batch_execute("SET LOCAL enable_seqscan = on").await?;
            let params: [Param<'_>; 3] =
                [(&first, Type::TIMESTAMPTZ), (&number, Type::INT8), (&length, Type::INT8)];
            let rows = held.ask(&text, &params).await?;
            let mut buckets: BTreeMap<i64, BTreeMap<Ending, u64>> = BTreeMap::new();
            for row in &rows {
                let count = u64::try_from(row.try_get::<_, i64>(2)?).unwrap_or_default();
                let ending = Ending::from_code(row.try_get(1)?)?;
                *buckets.entry(row.try_get(0)?).or_default().entry(ending).or_default() += count;
            }
            held.commit().await?;
            let bucket = |(place, endings): (i64, _)| -> Result<Bucket, Failure> {
                let start = start.saturating_add(place.saturating_mul(length));
                Ok(Bucket { start: instant(start)?, endings })
            };
            buckets.into_iter().map(bucket).collect()
        })
    }
}

/// A page of at most `limit` rows, when one more was asked for.
fn paged<R, Id>(mut rows: Vec<R>, limit: usize, id: impl Fn(&R) -> Id) -> Paged<R, Id> {
    let more = rows.len() > limit;
    rows.truncate(limit);
    Paged { next: rows.last().filter(|_| more).map(id), rows }
}
