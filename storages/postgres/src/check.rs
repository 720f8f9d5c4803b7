//! What a doctor looks at: the server, the tables, the plan of a claim, and whoever keeps vacuum from
//! its work.

use std::sync::atomic::Ordering;
use std::time::Duration;

use punctual::Result;
use punctual::clock::{add, between};
use punctual::jiff::Timestamp;
use punctual::model::Queue;
use punctual::storage::TopicFilter;
use punctual_rows::instant::{instant, micros};
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::PostgresStorage;
use crate::failure::Failure;
use crate::inner::{Inner, attempt};
use crate::marks::Marks;
use crate::migrate::{self, SCHEMA_VERSION};
use crate::session::Session;
use crate::topics::Topics;
use crate::value::{Micros, Param};

/// How often and how long it is waited for the listener to hear itself.
const HEARING_TRIES: u32 = 20;
const HEARING_WAIT: Duration = Duration::from_millis(100);
/// A transaction open for longer is named.
const LONG: &str = "30 seconds";
/// Dead rows beyond this are worth a word.
const DEAD_ODD: i64 = 1_000_000;
/// A difference of the clocks beyond this is worth a word.
const APART_ODD: Duration = Duration::from_secs(1);

/// How a database stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What is wrong or odd, in sentences; empty when all is well.
    pub findings: Vec<String>,
    /// The server's version, in its own words.
    pub server_version: String,
    /// The version of the tables.
    pub schema_version: i32,
    /// The version this program works with.
    pub schema_known: i32,
    /// Whether a claim walks the index that was made for it.
    pub claim_uses_index: bool,
    /// How a claim is planned, in the server's own words.
    pub claim_plan: String,
    /// Transactions and other holders of old rows, oldest first; vacuum removes nothing younger.
    pub long_transactions: Vec<LongTransaction>,
    /// How many dead rows the hot table has, as far as the server knows.
    pub dead_rows: i64,
    /// How far the server's clock is from ours; positive when it is ahead.
    pub clock_ahead_ms: i64,
    /// Whether somebody listens for other processes at this moment.
    pub is_listening: bool,
    /// Whether statements are prepared; they are not behind a pooler in transaction mode.
    pub is_prepared: bool,
}

/// Somebody who keeps old rows from being removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongTransaction {
    /// The process of the server; 0 for a replication slot or a prepared transaction.
    pub pid: i32,
    /// What it calls itself.
    pub application: String,
    /// What it is doing.
    pub state: String,
    /// For how many seconds it has been open.
    pub age_seconds: i64,
}

impl PostgresStorage {
    /// Looks at the database, quickly and without changing anything.
    pub async fn check(&self) -> Result<Check> {
        let inner = &self.inner;
        let mut check: Check = attempt!(inner, |held| inner.examine(held))?;
        check.is_listening = self.hears_soon().await;
        check.is_prepared = !inner.pool.unnamed.load(Ordering::Relaxed);
        judge(&mut check);
        Ok(check)
    }
}

impl PostgresStorage {
    /// A storage that was only just made has to hear itself first.
    async fn hears_soon(&self) -> bool {
        let clock = &self.inner.clock;
        for _ in 0..HEARING_TRIES {
            if self.inner.hears.load(Ordering::Acquire) {
                return true;
            }
            clock.sleep_until(add(clock.now(), HEARING_WAIT)).await;
        }
        false
    }
}

impl Inner {
    async fn examine(&self, held: &Session<'_>) -> Result<Check, Failure> {
        let asked_at = self.clock.now();
        let text = "SELECT clock_timestamp(), current_setting('server_version')";
        let rows = held.ask(text, &[]).await?;
        let row = rows.first().ok_or(Failure::Raced)?;
        let told = instant(row.try_get::<_, Micros>(0)?.0)?;
        let middle = add(asked_at, between(asked_at, self.clock.now()) / 2);
        let claim_plan = self.claim_plan(held).await?;
        Ok(Check {
            findings: Vec::new(),
            server_version: row.try_get(1)?,
            schema_version: migrate::version(held, &self.schema).await?.unwrap_or_default(),
            schema_known: SCHEMA_VERSION,
            claim_uses_index: claim_plan.contains("message_pending"),
            claim_plan,
            long_transactions: long_transactions(held).await?,
            dead_rows: self.dead_rows(held).await?,
            clock_ahead_ms: milliseconds(told, middle),
            is_listening: false,
            is_prepared: false,
        })
    }

    /// The plan of a claim, as text.
    pub(crate) async fn claim_plan(&self, held: &Session<'_>) -> Result<String, Failure> {
        let text = format!("EXPLAIN {}", self.sql.claim.text);
        let (queue, all) = (Queue::default(), TopicFilter::All);
        let start = Marks::default().start(&queue, &all, Timestamp::MIN);
        let topics = Topics::of(&all);
        let now = Micros(micros(self.clock.now()));
        let params: [Param<'_>; 10] = [
            (&"default", Type::TEXT),
            (&now, Type::TIMESTAMPTZ),
            (&100i64, Type::INT8),
            (&Uuid::nil(), Type::UUID),
            (&start.priorities, Type::INT2_ARRAY),
            (&start.due, Type::TIMESTAMPTZ_ARRAY),
            (&start.ids, Type::UUID_ARRAY),
            (&now, Type::TIMESTAMPTZ),
            (&topics.only, Type::TEXT_ARRAY),
            (&topics.not_system, Type::BOOL),
        ];
        let rows = held.ask(&text, &params).await?;
        let lines: Result<Vec<String>, _> = rows.iter().map(|row| row.try_get(0)).collect();
        Ok(lines?.join("\n"))
    }

    async fn dead_rows(&self, held: &Session<'_>) -> Result<i64, Failure> {
        let text = "SELECT coalesce(pg_stat_get_dead_tuples($1::text::regclass), 0)";
        let table = format!("{}.message", self.schema.quoted);
        let rows = held.ask(text, &[(&table, Type::TEXT)]).await?;
        Ok(rows.first().map_or(Ok(0), |row| row.try_get(0))?)
    }
}

/// Who holds old rows: open transactions, replication slots, prepared transactions.
async fn long_transactions(held: &Session<'_>) -> Result<Vec<LongTransaction>, Failure> {
    let text = format!(
        "SELECT * FROM ( \
           SELECT pid, coalesce(application_name, ''), coalesce(state, ''), \
             extract(epoch FROM clock_timestamp() - xact_start)::int8 AS age \
           FROM pg_catalog.pg_stat_activity \
           WHERE xact_start < clock_timestamp() - interval '{LONG}' \
             AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) \
             AND pid <> pg_backend_pid() AND backend_type <> 'autovacuum worker' \
           UNION ALL \
           SELECT 0, gid, 'prepared transaction', \
             extract(epoch FROM clock_timestamp() - prepared)::int8 \
           FROM pg_catalog.pg_prepared_xacts WHERE prepared < clock_timestamp() - interval '{LONG}' \
           UNION ALL \
           SELECT coalesce(active_pid, 0), slot_name::text, 'replication slot', 0::int8 \
           FROM pg_catalog.pg_replication_slots WHERE xmin IS NOT NULL AND NOT active \
         ) AS holders ORDER BY age DESC LIMIT 10"
    );
    let rows = held.ask(&text, &[]).await?;
    let read = |row: &tokio_postgres::Row| -> Result<LongTransaction, Failure> {
        Ok(LongTransaction {
            pid: row.try_get(0)?,
            application: row.try_get(1)?,
            state: row.try_get(2)?,
            age_seconds: row.try_get(3)?,
        })
    };
    rows.iter().map(read).collect()
}

fn milliseconds(told: Timestamp, ours: Timestamp) -> i64 {
    i64::try_from(told.duration_since(ours).as_millis()).unwrap_or(i64::MAX)
}

/// Says in sentences what is odd.
fn judge(check: &mut Check) {
    let findings = &mut check.findings;
    if check.schema_version != check.schema_known {
        findings.push(format!(
            "the tables have version {} and this program knows version {}",
            check.schema_version, check.schema_known
        ));
    }
    if !check.claim_uses_index {
        findings.push("a claim does not walk the index message_pending; run ANALYZE on the table message, and see whether somebody dropped the index".to_owned());
    }
    for one in &check.long_transactions {
        findings.push(format!(
            "{} (pid {}, {}) has been open for {} s; until it ends, dead rows stay and everything on this database gets slower",
            if one.application.is_empty() { "a transaction" } else { &one.application },
            one.pid,
            one.state,
            one.age_seconds
        ));
    }
    if check.dead_rows > DEAD_ODD {
        findings.push(format!(
            "the table message has {} dead rows; see that autovacuum runs, or run VACUUM",
            check.dead_rows
        ));
    }
    if check.clock_ahead_ms.unsigned_abs() > u64::try_from(APART_ODD.as_millis()).unwrap_or(1_000) {
        findings.push(format!(
            "the server's clock is {} ms ahead of this machine's; leases follow the server's",
            check.clock_ahead_ms
        ));
    }
    if !check.is_listening {
        findings.push("nobody listens for other processes, so news travel by polling; behind a pooler give listener_url".to_owned());
    }
}
