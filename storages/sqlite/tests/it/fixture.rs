//! Fixture: a folder with a database file, and messages to store.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use punctual::backend::policy::Verdict;
use punctual::backend::storage::{
    Claim, ClaimedMessage, EnqueueResult, Entry, SettleResult, Settlement,
};
use punctual::clock::add;
use punctual::jiff::Timestamp;
use punctual::model::{
    Body, Correlation, Ending, Execution, ExecutionId, Headers, IdSource as _, Ids, JobRecord,
    MessageId, Origin, Overrides, Priority, ProcessId, Queue, Source, Topic,
};
use punctual::{Clock as _, Job, Message, Storage as _, SystemClock};
use punctual_sqlite::{SqliteBuilder, SqliteStorage};
use rusqlite::Connection;

pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

pub(crate) struct Fixture {
    pub(crate) folder: tempfile::TempDir,
    ids: Ids,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), ids: Ids::seeded(7) }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("punctual.db")
    }

    pub(crate) fn builder(&self) -> SqliteBuilder {
        SqliteStorage::builder(self.path()).busy_timeout(Duration::from_secs(20))
    }

    pub(crate) async fn open(&self) -> SqliteStorage {
        self.builder().open().await.unwrap()
    }

    /// Opens another connection to the same file.
    pub(crate) fn other_connection(&self) -> Connection {
        Connection::open(self.path()).unwrap()
    }

    pub(crate) fn message(&self) -> Message {
        self.due(at(0))
    }

    pub(crate) fn due(&self, due_at: Timestamp) -> Message {
        Message {
            id: MessageId::from_uuid(self.ids.next(at(1_000))),
            topic: Topic::new("mail").unwrap(),
            queue: Queue::default(),
            priority: Priority::NORMAL,
            due_at,
            created_at: at(0),
            source: Source::Published,
            key: None,
            dedupe: None,
            exclusive: false,
            body: Body::raw(vec![b'x'; 100], "application/json"),
            headers: Headers::new(),
            correlation: Correlation::default(),
            occurrence: None,
            handler_options: None,
            relations: None,
            route: None,
        }
    }

    pub(crate) fn entries(&self, count: usize) -> Vec<Entry> {
        (0..count).map(|_| Entry::from(self.message())).collect()
    }

    pub(crate) fn process(&self) -> ProcessId {
        ProcessId::from_uuid(self.ids.next(at(1_000)))
    }

    pub(crate) fn settlement(&self, claimed: &ClaimedMessage, verdict: Verdict) -> Settlement {
        let message = &claimed.message;
        let execution = Execution {
            id: ExecutionId::from_uuid(self.ids.next(at(1_000))),
            message: Some(message.id),
            topic: message.topic.clone(),
            queue: message.queue.clone(),
            key: message.key.clone(),
            job: None,
            nominal: None,
            source: message.source,
            attempt: claimed.attempt,
            attempts_max: Some(3),
            process: Some(claimed.lease.owner),
            due_at: claimed.due_at,
            started_at: at(1),
            ended_at: at(2),
            ending: Ending::Succeeded,
            note: None,
            log: None,
        };
        Settlement::new(claimed.lease_ref(), verdict, Some(Arc::new(execution)))
    }
}

/// Returns a newly declared job, with its next occurrence after a minute.
pub(crate) fn job_record(job: Job) -> JobRecord {
    JobRecord {
        declared: job.clone(),
        configured: None,
        overrides: Overrides::default(),
        job,
        origin: Origin::Declared,
        app: "tests".to_owned(),
        release: 1,
        cursor: Some(at(60)),
        last_nominal: None,
        runs: 0,
        paused: None,
        retired: None,
        created_at: at(0),
        updated_at: at(0),
        version: 0,
    }
}

pub(crate) async fn offer(storage: &SqliteStorage, message: Message) -> EnqueueResult {
    storage.enqueue(vec![Entry::from(message)], at(0)).await.unwrap()[0]
}

pub(crate) async fn claim(
    storage: &SqliteStorage,
    owner: ProcessId,
    limit: usize,
) -> Vec<ClaimedMessage> {
    let claim = Claim::new(Queue::default(), owner, limit, at(60));
    storage.claim(claim, at(10)).await.unwrap()
}

pub(crate) async fn settle(
    storage: &SqliteStorage,
    settlements: Vec<Settlement>,
) -> Vec<SettleResult> {
    storage.settle(settlements, at(11)).await.unwrap()
}

/// Returns how many rows a table has, read by another connection.
pub(crate) fn rows_of(connection: &Connection, table: &str) -> usize {
    let sql = format!("SELECT count(*) FROM {table}");
    let count: i64 = connection.query_row(&sql, [], |row| row.get(0)).unwrap();
    usize::try_from(count).unwrap()
}

/// Lets all running calls proceed as far as they can without the lock.
pub(crate) async fn settled_down() {
    SystemClock.sleep_until(add(SystemClock.now(), Duration::from_millis(150))).await;
}

/// Write lock of another connection, until it is dropped.
pub(crate) struct Lock(Connection);

impl Drop for Lock {
    fn drop(&mut self) {
        self.0.execute_batch("ROLLBACK").unwrap();
    }
}

impl Fixture {
    /// Begins a write transaction of another process and keeps it open.
    pub(crate) fn lock(&self) -> Lock {
        let connection = self.other_connection();
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        Lock(connection)
    }
}
