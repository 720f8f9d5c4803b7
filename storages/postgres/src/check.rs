//! Check of the database: the server, the tables, the plan of a claim, and transactions that keep vacuum from
//! its work.

use std::sync::atomic::Ordering;
use std::time::Duration;

use punctual::Result;
use punctual::backend::storage::TopicFilter;
use punctual::clock::{add, between};
use punctual::jiff::Timestamp;
use punctual::model::Queue;
use punctual_columns::instant::{instant, micros};
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::PostgresStorage;
use crate::error::StorageError;
use crate::inner::{Inner, attempt};
use crate::migrate::{self, SCHEMA_VERSION};
use crate::operations::claim_cursor::ClaimCursors;
use crate::operations::topics::TopicParams;
use crate::session::Session;
use crate::value::{Micros, Param};

/// Number of checks, and pause between them, while waiting until the listener receives its own notification.
const LISTENER_CHECKS_MAX: u32 = 20;
const LISTENER_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Transactions open for longer are reported.
const LONG_TRANSACTION: &str = "30 seconds";
/// Number of dead rows above which a finding is reported.
const DEAD_ROWS_MAX: i64 = 1_000_000;
/// Clock difference above which a finding is reported.
const CLOCK_DIFFERENCE_MAX: Duration = Duration::from_secs(1);

/// State of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresCheck {
    /// Problems and oddities as sentences; empty when there are none.
    pub findings: Vec<String>,
    /// Version of the server, as it reports it.
    pub server_version: String,
    /// Version of the tables.
    pub schema_version: i32,
    /// Version of the tables that this program works with.
    pub schema_known: i32,
    /// Whether a claim uses the index made for it.
    pub claim_uses_index: bool,
    /// Plan of a claim, as text of the server.
    pub claim_plan: String,
    /// Transactions and other reservations of old rows, oldest first; vacuum removes no row that is younger.
    pub long_transactions: Vec<LongTransaction>,
    /// Number of dead rows of the table `message`, by the server's statistics.
    pub dead_rows: i64,
    /// Difference of the server's clock to this machine's in milliseconds; positive when the server is ahead.
    pub clock_ahead_ms: i64,
    /// Whether the listener is connected and receives notifications.
    pub is_listening: bool,
    /// Whether statements are prepared; they are not behind a pooler in transaction mode.
    pub is_prepared: bool,
}

/// Transaction or replication slot that keeps old rows from being removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongTransaction {
    /// Process id on the server; 0 for a replication slot or a prepared transaction.
    pub pid: i32,
    /// Application name of the connection, or name of the slot.
    pub application: String,
    /// State of the connection, as the server reports it.
    pub state: String,
    /// Seconds since the transaction began.
    pub age_seconds: i64,
}

impl PostgresStorage {
    /// Checks the database, quickly and without changing anything.
    pub async fn check(&self) -> Result<PostgresCheck> {
        let inner = &self.inner;
        let mut check: PostgresCheck = attempt!(inner, |session| inner.examine(session))?;
        check.is_listening = self.wait_for_listener().await;
        check.is_prepared = !inner.pool.unnamed.load(Ordering::Relaxed);
        add_findings(&mut check);
        Ok(check)
    }
}

impl PostgresStorage {
    /// Waits until the listener has received its own notification: a new storage has not done so yet.
    async fn wait_for_listener(&self) -> bool {
        let clock = &self.inner.clock;
        for _ in 0..LISTENER_CHECKS_MAX {
            if self.inner.is_listening.load(Ordering::Acquire) {
                return true;
            }
            clock.sleep_until(add(clock.now(), LISTENER_CHECK_INTERVAL)).await;
        }
        false
    }
}

impl Inner {
    async fn examine(&self, session: &Session<'_>) -> Result<PostgresCheck, StorageError> {
        let queried_at = self.clock.now();
        let text = "SELECT clock_timestamp(), current_setting('server_version')";
        let rows = session.query_text(text, &[]).await?;
        let row = rows.first().ok_or(StorageError::Raced)?;
        let server_time = instant(row.try_get::<_, Micros>(0)?.0)?;
        let middle = add(queried_at, between(queried_at, self.clock.now()) / 2);
        let claim_plan = self.claim_plan(session).await?;
        Ok(PostgresCheck {
            findings: Vec::new(),
            server_version: row.try_get(1)?,
            schema_version: migrate::version(session, &self.schema).await?.unwrap_or_default(),
            schema_known: SCHEMA_VERSION,
            claim_uses_index: claim_plan.contains("message_pending"),
            claim_plan,
            long_transactions: long_transactions(session).await?,
            dead_rows: self.dead_rows(session).await?,
            clock_ahead_ms: milliseconds(server_time, middle),
            is_listening: false,
            is_prepared: false,
        })
    }

    /// Returns the plan of a claim, as text.
    pub(crate) async fn claim_plan(&self, session: &Session<'_>) -> Result<String, StorageError> {
        let text = format!("EXPLAIN {}", self.sql.claim.text);
        let (queue, all) = (Queue::default(), TopicFilter::All);
        let start = ClaimCursors::default().start(&queue, &all, Timestamp::MIN);
        let topics = TopicParams::of(&all);
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
        let rows = session.query_text(&text, &params).await?;
        let lines: Result<Vec<String>, _> = rows.iter().map(|row| row.try_get(0)).collect();
        Ok(lines?.join("\n"))
    }

    async fn dead_rows(&self, session: &Session<'_>) -> Result<i64, StorageError> {
        let text = "SELECT coalesce(pg_stat_get_dead_tuples($1::text::regclass), 0)";
        let table = format!("{}.message", self.schema.quoted);
        let rows = session.query_text(text, &[(&table, Type::TEXT)]).await?;
        Ok(rows.first().map_or(Ok(0), |row| row.try_get(0))?)
    }
}

/// Returns the reservations of old rows: open transactions, replication slots, prepared transactions.
async fn long_transactions(session: &Session<'_>) -> Result<Vec<LongTransaction>, StorageError> {
    let text = format!(
        "SELECT * FROM ( \
           SELECT pid, coalesce(application_name, ''), coalesce(state, ''), \
             extract(epoch FROM clock_timestamp() - xact_start)::int8 AS age \
           FROM pg_catalog.pg_stat_activity \
           WHERE xact_start < clock_timestamp() - interval '{LONG_TRANSACTION}' \
             AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) \
             AND pid <> pg_backend_pid() AND backend_type <> 'autovacuum worker' \
           UNION ALL \
           SELECT 0, gid, 'prepared transaction', \
             extract(epoch FROM clock_timestamp() - prepared)::int8 \
           FROM pg_catalog.pg_prepared_xacts WHERE prepared < clock_timestamp() - interval '{LONG_TRANSACTION}' \
           UNION ALL \
           SELECT coalesce(active_pid, 0), slot_name::text, 'replication slot', 0::int8 \
           FROM pg_catalog.pg_replication_slots WHERE xmin IS NOT NULL AND NOT active \
         ) AS reservations ORDER BY age DESC LIMIT 10"
    );
    let rows = session.query_text(&text, &[]).await?;
    let read = |row: &tokio_postgres::Row| -> Result<LongTransaction, StorageError> {
        Ok(LongTransaction {
            pid: row.try_get(0)?,
            application: row.try_get(1)?,
            state: row.try_get(2)?,
            age_seconds: row.try_get(3)?,
        })
    };
    rows.iter().map(read).collect()
}

fn milliseconds(server_time: Timestamp, ours: Timestamp) -> i64 {
    i64::try_from(server_time.duration_since(ours).as_millis()).unwrap_or(i64::MAX)
}

/// Adds a finding for each oddity.
fn add_findings(check: &mut PostgresCheck) {
    let findings = &mut check.findings;
    if check.schema_version != check.schema_known {
        findings.push(format!(
            "the tables have version {} and this program needs version {}; migrate them or update the program",
            check.schema_version, check.schema_known
        ));
    }
    if !check.claim_uses_index {
        findings.push("a claim does not use the index message_pending; run ANALYZE on the table message, and check whether the index was dropped".to_owned());
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
    if check.dead_rows > DEAD_ROWS_MAX {
        findings.push(format!(
            "the table message has {} dead rows; check that autovacuum runs, or run VACUUM",
            check.dead_rows
        ));
    }
    if check.clock_ahead_ms.unsigned_abs()
        > u64::try_from(CLOCK_DIFFERENCE_MAX.as_millis()).unwrap_or(1_000)
    {
        findings.push(format!(
            "the server's clock is {} ms ahead of this machine's; leases follow the server's",
            check.clock_ahead_ms
        ));
    }
    if !check.is_listening {
        findings.push("no listener is connected, so changes of other processes are found by polling only; behind a pooler set listener_url".to_owned());
    }
}
