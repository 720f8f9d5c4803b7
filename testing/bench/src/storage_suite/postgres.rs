//! PostgreSQL: bulk enqueue and drain compared with the raw limit, with a million messages waiting and with an old
//! snapshot open, and the statements of an idle process.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use punctual_postgres::PostgresStorage;
use tokio_postgres::Client;

use super::drain::{drain, fill, publisher};
use super::{BATCH, REPETITIONS, Rates, float, postgres_raw, ratio};
use crate::figure::Figure;

/// Schema of the tables of this measurement.
const SCHEMA: &str = "punctual_bench";
/// Number of messages that are not due.
const FUTURE: usize = 1_000_000;
/// Time over which an idle process is measured.
const MEASURE_TIME: Duration = Duration::from_secs(30);
/// Time until a started process is idle and its connections have flushed their statistics to the server.
const IDLE_AFTER: Duration = Duration::from_secs(20);
/// Time the server takes to publish its statistics.
const STATISTICS_DELAY: Duration = Duration::from_secs(3);

pub(super) async fn measure(url: &str, messages: usize, idle_only: bool) -> Result<Vec<Figure>> {
    let client = postgres_raw::connect(url).await.context("connect to PostgreSQL")?;
    client.batch_execute(&format!("DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")).await?;
    let bench = Bench { url, client, messages };
    let figures = if idle_only {
        bench.idle().await.map(|figure| vec![figure])
    } else {
        bench.measure().await
    };
    bench.client.batch_execute(&format!("DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")).await?;
    figures
}

struct Bench<'a> {
    url: &'a str,
    client: Client,
    messages: usize,
}

/// Counters of the server.
#[derive(Clone, Copy)]
struct ServerCounters {
    commits: i64,
    wal_bytes: i64,
}

impl Bench<'_> {
    async fn measure(&self) -> Result<Vec<Figure>> {
        let mut figures = self.compare_with_raw().await?;
        figures.extend(self.defaults().await?);
        figures.push(self.idle().await?);
        Ok(figures)
    }

    async fn storage(&self) -> Result<Arc<PostgresStorage>> {
        let storage = PostgresStorage::builder(self.url).schema(SCHEMA).connect().await?;
        Ok(Arc::new(storage))
    }

    /// Measures all compared rates alternately, so that changes on the machine affect all of them alike.
    async fn compare_with_raw(&self) -> Result<Vec<Figure>> {
        let storage = self.storage().await?;
        let [mut raw_copy, mut enqueue, mut raw, mut plain, mut future, mut old_snapshot] =
            std::array::from_fn(|_| Rates::default());
        for _ in 0..REPETITIONS {
            self.clear().await?;
            enqueue.push(fill(&storage, self.messages, self.messages).await?);
            raw_copy.push(postgres_raw::copy_in(&self.client, SCHEMA, self.messages).await?);
            postgres_raw::copy_of_messages(&self.client, SCHEMA).await?;
            raw.push(postgres_raw::drain(self.url, SCHEMA, self.messages).await?);
            plain.push(drain(&storage, self.messages, Some(BATCH)).await?);
            self.clear().await?;
            fill(&storage, self.messages, self.messages).await?;
            old_snapshot.push(self.with_old_snapshot(&storage).await?);
            self.clear().await?;
            self.fill_future().await?;
            fill(&storage, self.messages, self.messages).await?;
            future.push(drain(&storage, self.messages, Some(BATCH)).await?);
        }
        let count = self.messages;
        Ok(vec![
            raw_copy.figure("postgres: raw COPY", &format!("{count} rows, binary, one call")),
            enqueue.figure("postgres: bulk enqueue", &format!("{count} messages, one call")),
            ratio("postgres: bulk enqueue of raw COPY", &enqueue, &raw_copy, "at least 60"),
            raw.figure(
                "postgres: raw claim and delete",
                &format!("{count} rows, {BATCH} at once, two connections"),
            ),
            plain.figure(
                "postgres: drain",
                &format!("{count} messages, {BATCH} slots, no-op handler, history recorded"),
            ),
            ratio("postgres: drain of raw", &plain, &raw, "at least 60"),
            ratio("postgres: drain with 1,000,000 future messages", &future, &plain, "at least 90"),
            ratio(
                "postgres: drain with an old snapshot held",
                &old_snapshot,
                &plain,
                "at least 80",
            ),
        ])
    }

    /// Measures a drain with default options, and its commits and WAL.
    async fn defaults(&self) -> Result<Vec<Figure>> {
        let storage = self.storage().await?;
        self.clear().await?;
        fill(&storage, self.messages, self.messages).await?;
        let before = self.counters().await?;
        let rate = drain(&storage, self.messages, None).await?;
        let after = self.counters().await?;
        let per_message =
            |count: i64| float(usize::try_from(count).unwrap_or(0)) / float(self.messages);
        let how = format!("{} messages, defaults, one run", self.messages);
        let figure = |name: &str, value: f64, unit, target| Figure {
            name: format!("postgres: {name}"),
            value,
            unit,
            target,
            how: how.clone(),
        };
        Ok(vec![
            figure("drain with defaults", rate, "messages/s", ""),
            figure(
                "commits per message while draining",
                per_message(after.commits - before.commits),
                "commits",
                "at most 0.1",
            ),
            figure(
                "WAL per message while draining",
                per_message(after.wal_bytes - before.wal_bytes),
                "bytes",
                "",
            ),
        ])
    }

    /// Measures the statements of a process while nothing is due: five queues, a job, and a message due tomorrow.
    async fn idle(&self) -> Result<Figure> {
        let storage = self.storage().await?;
        self.clear().await?;
        let mut builder = punctual::Punctual::builder()
            .storage(storage.clone())
            .declare(punctual::Job::cron("yearly", "0 0 1 1 *"));
        for queue in ["default", "mail", "reports", "slow", "quick"] {
            builder = builder.queue(queue, 10);
        }
        let punctual = builder.build()?;
        publisher(&storage)?
            .publisher()
            .publish("tick", "")
            .after(Duration::from_secs(86_400))
            .await?;
        // The server has work of its own, such as vacuum; it is measured without the process first.
        let alone = self.committed_transactions().await?;
        punctual.start().await?;
        let with_us = self.committed_transactions().await?;
        punctual.shutdown().await;
        let statements = with_us.saturating_sub(alone);
        let committed_transactions = MEASURE_TIME + STATISTICS_DELAY;
        Ok(Figure {
            name: "postgres: statements of an idle process".to_owned(),
            value: float(statements) / committed_transactions.as_secs_f64(),
            unit: "statements/s",
            target: "at most 1",
            how: format!(
                "{with_us} transactions in {} s with five queues, {alone} without the process",
                committed_transactions.as_secs()
            ),
        })
    }

    /// Returns the number of transactions committed within `MEASURE_TIME`.
    async fn committed_transactions(&self) -> Result<usize> {
        tokio::time::sleep(IDLE_AFTER).await;
        let before = self.counters().await?;
        tokio::time::sleep(MEASURE_TIME).await;
        let after = self.counters().await?;
        Ok(usize::try_from(after.commits - before.commits)?)
    }

    async fn with_old_snapshot(&self, storage: &Arc<PostgresStorage>) -> Result<f64> {
        let holder = postgres_raw::connect(self.url).await?;
        holder
            .batch_execute(&format!(
                "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM {SCHEMA}.job"
            ))
            .await?;
        let rate = drain(storage, self.messages, Some(BATCH)).await?;
        holder.batch_execute("COMMIT").await?;
        Ok(rate)
    }

    async fn clear(&self) -> Result<()> {
        let tables = "message, dead, history, job, process";
        let tables: Vec<String> =
            tables.split(", ").map(|table| format!("{SCHEMA}.{table}")).collect();
        self.client.batch_execute(&format!("TRUNCATE {}", tables.join(", "))).await?;
        self.client.batch_execute("CHECKPOINT").await?;
        Ok(())
    }

    async fn fill_future(&self) -> Result<()> {
        self.client
            .batch_execute(&format!(
                "INSERT INTO {SCHEMA}.message (id, queue, topic, priority, source, due_at, planned_at, \
                 created_at, body) SELECT gen_random_uuid(), 'default', 'tick', 5, 0, \
                 now() + interval '1 day' + n * interval '1 second', now(), now(), \
                 convert_to(repeat('x', 100), 'UTF8') FROM generate_series(1, {FUTURE}) n"
            ))
            .await
            .context("store future messages")?;
        // Otherwise the drain would write these pages from the cache to the disk.
        self.client.batch_execute("CHECKPOINT").await?;
        Ok(())
    }

    async fn counters(&self) -> Result<ServerCounters> {
        tokio::time::sleep(STATISTICS_DELAY).await;
        let row = self
            .client
            .query_one(
                "SELECT xact_commit, (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint \
                 FROM pg_stat_database WHERE datname = current_database()",
                &[],
            )
            .await?;
        Ok(ServerCounters { commits: row.get(0), wal_bytes: row.get(1) })
    }
}
