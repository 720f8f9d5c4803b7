//! Storage: every call runs on the writer thread or on a reader thread. Nothing is decided here, and no thread
//! of a caller uses the file.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use punctual::Result;
use punctual::backend::policy::RateGrant;
use punctual::backend::storage::{
    BrokerRecord, Claim, ClaimedMessage, Command, CommandResult, DeclareResult, DueJob,
    EnqueueResult, Entry, ExtendResult, FireResult, Firing, JobCommandResult, ProgressUpdate,
    Prune, PruneResult, RateRequest, Reclaim, SettleResult, Settlement, Storage, WakeSource,
    Wakeup,
};
use punctual::jiff::Timestamp;
use punctual::model::{JobCommand, JobName, JobRecord, LeaseRef, MessageRecord, ProcessId, Topic};

use crate::builder::Settings;
use crate::builder::SqliteBuilder;
use crate::driver::at_once;
use crate::notifications::Notifications;
use crate::operations::{self, commands, fire, groups, jobs, maintenance, next_due, rates};
use crate::readers::Readers;
use crate::watcher::Watcher;
use crate::writer::Writer;

/// Storage of messages and jobs in one SQLite file.
///
/// Calls that write share one thread and its commits, and return after their commit; calls that read use a few
/// other threads. Dropping the storage ends the threads a moment later; [`SqliteStorage::close`] waits for
/// them.
///
/// ```
/// # async fn example() -> punctual::Result<()> {
/// use std::sync::Arc;
/// use punctual_sqlite::SqliteStorage;
///
/// let storage = Arc::new(SqliteStorage::open("punctual.db").await?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SqliteStorage {
    pub(crate) writer: Writer,
    pub(crate) readers: Readers,
    pub(crate) settings: Settings,
    notifications: Arc<Notifications>,
    watcher: Mutex<Option<Watcher>>,
}

impl SqliteStorage {
    /// Opens a file with the default options; creates it and its tables if they do not exist.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self> {
        Self::builder(path).open().await
    }

    /// Returns a builder with the default options.
    pub fn builder(path: impl Into<PathBuf>) -> SqliteBuilder {
        SqliteBuilder::new(path)
    }

    pub(crate) async fn start(settings: Settings) -> Result<Self> {
        let notifications = Arc::new(Notifications::default());
        let writer = Writer::start(settings.clone(), Arc::clone(&notifications)).await?;
        let readers = Readers::start(&settings)?;
        let watcher = Watcher::start(&settings, writer.clone())?;
        Ok(Self { writer, readers, settings, notifications, watcher: Mutex::new(Some(watcher)) })
    }

    /// Finishes the waiting calls, copies the journal into the file and closes it. Later calls fail as
    /// unavailable.
    pub async fn close(&self) -> Result<()> {
        self.watcher.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.readers.close().await;
        self.writer.close().await
    }

    /// Returns how many transactions this handle has committed: fewer than calls when several were concurrent.
    pub fn commits(&self) -> u64 {
        self.writer.commits()
    }
}

#[async_trait]
impl Storage for SqliteStorage {
    async fn enqueue(&self, entries: Vec<Entry>, now: Timestamp) -> Result<Vec<EnqueueResult>> {
        let rows = entries.len();
        self.writer
            .write(rows, move |tx, effects| {
                at_once(operations::enqueue(&tx, &entries, now, effects))
            })
            .await
    }

    async fn claim(&self, claim: Claim, now: Timestamp) -> Result<Vec<ClaimedMessage>> {
        let (rows, notifications, queue) =
            (claim.limit, Arc::clone(&self.notifications), claim.queue.clone());
        let claimed = self
            .writer
            .write(rows, move |tx, effects| {
                operations::claim(tx, (&claim, &notifications.cursors), now, effects)
            })
            .await;
        if claimed.is_err() {
            self.notifications.cursors.invalidate_queue(&queue);
        }
        claimed
    }

    async fn extend(
        &self,
        leases: &[LeaseRef],
        until: Timestamp,
        _now: Timestamp,
    ) -> Result<Vec<ExtendResult>> {
        let leases = leases.to_vec();
        self.writer.write(leases.len(), move |tx, _| operations::extend(tx, &leases, until)).await
    }

    async fn settle(
        &self,
        settlements: Vec<Settlement>,
        now: Timestamp,
    ) -> Result<Vec<SettleResult>> {
        let rows = settlements.len();
        self.writer
            .write(rows, move |tx, effects| {
                at_once(operations::settle(&tx, &settlements, now, effects))
            })
            .await
    }

    async fn save_progress(
        &self,
        keeps: Vec<ProgressUpdate>,
        _now: Timestamp,
    ) -> Result<Vec<ExtendResult>> {
        self.writer.write(keeps.len(), move |tx, _| operations::save_progress(tx, &keeps)).await
    }

    async fn acquire_rate(&self, permit: RateRequest, now: Timestamp) -> Result<RateGrant> {
        self.writer.write(1, move |tx, _| rates::acquire(tx, &permit, now)).await
    }

    async fn record(&self, records: Vec<BrokerRecord>, now: Timestamp) -> Result<()> {
        self.writer
            .write(records.len(), move |tx, effects| operations::record(tx, &records, now, effects))
            .await
    }

    async fn command(&self, command: Command, now: Timestamp) -> Result<CommandResult> {
        self.writer.write(1, move |tx, effects| commands::command(tx, &command, now, effects)).await
    }

    async fn declare(
        &self,
        record: JobRecord,
        seen: Option<u64>,
        now: Timestamp,
    ) -> Result<DeclareResult> {
        self.writer
            .write(1, move |tx, effects| jobs::declare(tx, &record, seen, now, effects))
            .await
    }

    async fn due_jobs(&self, limit: usize, now: Timestamp) -> Result<Vec<DueJob>> {
        self.readers.read(move |connection| jobs::due_jobs(connection, limit, now)).await
    }

    async fn fire(&self, firings: Vec<Firing>, now: Timestamp) -> Result<Vec<FireResult>> {
        let rows = firings.iter().map(|firing| 1 + firing.messages.len()).sum();
        self.writer.write(rows, move |tx, effects| fire::fire(tx, &firings, now, effects)).await
    }

    async fn command_job(
        &self,
        job: &JobName,
        command: JobCommand,
        seen: u64,
        now: Timestamp,
    ) -> Result<JobCommandResult> {
        let job = job.clone();
        self.writer
            .write(1, move |tx, effects| jobs::command(tx, &job, (&command, seen), now, effects))
            .await
    }

    async fn remove_job(
        &self,
        job: &JobName,
        seen: u64,
        _now: Timestamp,
    ) -> Result<JobCommandResult> {
        let job = job.clone();
        self.writer.write(1, move |tx, effects| jobs::remove(tx, &job, seen, effects)).await
    }

    async fn reclaim(&self, reclaim: Reclaim, now: Timestamp) -> Result<Vec<ClaimedMessage>> {
        let rows = reclaim.limit;
        self.writer.write(rows, move |tx, _| maintenance::reclaim(tx, &reclaim, now)).await
    }

    async fn next_expiry(&self) -> Result<Option<Timestamp>> {
        self.readers.read(maintenance::next_expiry).await
    }

    async fn heartbeat(&self, process: ProcessId, until: Timestamp, now: Timestamp) -> Result<()> {
        self.writer.write(1, move |tx, _| maintenance::heartbeat(tx, process, until, now)).await
    }

    async fn register_group(&self, topic: &Topic, group: &str, now: Timestamp) -> Result<()> {
        let (topic, group) = (topic.clone(), group.to_owned());
        self.writer.write(1, move |tx, _| groups::register(tx, &topic, &group, now)).await
    }

    async fn groups(&self) -> Result<Vec<(Topic, String)>> {
        self.readers.read(groups::list).await
    }

    async fn prune(&self, prune: Prune, now: Timestamp) -> Result<PruneResult> {
        let rows = prune.limit;
        self.writer
            .write(rows, move |tx, effects| maintenance::prune(tx, prune, now, effects))
            .await
    }

    async fn import_messages(
        &self,
        records: Vec<MessageRecord>,
        now: Timestamp,
    ) -> Result<Vec<EnqueueResult>> {
        let rows = records.len();
        self.writer
            .write(rows, move |tx, effects| operations::import_messages(tx, &records, now, effects))
            .await
    }

    async fn next_due(&self, source: &WakeSource) -> Result<Option<Timestamp>> {
        let due = self.next_due_all(std::slice::from_ref(source)).await?;
        Ok(due.into_iter().next().flatten())
    }

    fn wakeup(&self, source: &WakeSource) -> Wakeup {
        self.notifications.wakeup(source)
    }

    async fn time(&self) -> Result<Timestamp> {
        Ok(self.settings.clock.now())
    }

    async fn next_due_all(&self, sources: &[WakeSource]) -> Result<Vec<Option<Timestamp>>> {
        let query = self.notifications.begin_query(sources);
        let wanted = sources.to_vec();
        let due = self
            .readers
            .read(move |connection| next_due::next_due_all(connection, &wanted))
            .await?;
        query.finish(&due);
        Ok(due)
    }

    /// The watcher notices writes of other processes, within about a tenth of a second.
    fn notifies_across_processes(&self) -> bool {
        true
    }
}
