//! The storage: every call goes to the thread that writes or to those that read. Nothing is decided
//! here, and no caller's thread ever touches the file.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use punctual::Result;
use punctual::jiff::Timestamp;
use punctual::model::{JobName, JobRecord, LeaseRef, MessageRecord, ProcessId, Steer, Topic};
use punctual::policy::Permitted;
use punctual::storage::{
    BrokerRecord, Claim, Claimed, Command, Commanded, Declared, DueJob, Enqueued, Entry, Extended,
    Fired, Firing, Keep, Line, Permit, Prune, Pruned, Reclaim, Settled, Settlement, Steered,
    Storage, Wakeup,
};

use crate::bells::Bells;
use crate::builder::Builder;
use crate::readers::Readers;
use crate::settings::Settings;
use crate::watcher::Watcher;
use crate::writer::Writer;
use crate::{commands, due, groups, jobs, rates, upkeep, work};

/// Remembers messages and jobs in one SQLite file.
///
/// Calls that write are done by one thread, together, and answered after their commit; calls that read
/// are done by a few others. Dropping it ends the threads a moment later; [`SqliteStorage::close`]
/// waits for them.
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
    bells: Arc<Bells>,
    watcher: Mutex<Option<Watcher>>,
}

impl SqliteStorage {
    /// Opens a file with the defaults, creating it and its tables where they are not there.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self> {
        Self::builder(path).open().await
    }

    /// Opens a file with settings of your own.
    pub fn builder(path: impl Into<PathBuf>) -> Builder {
        Builder::new(path)
    }

    pub(crate) async fn start(settings: Settings) -> Result<Self> {
        let bells = Arc::new(Bells::default());
        let writer = Writer::start(settings.clone(), Arc::clone(&bells)).await?;
        let readers = Readers::start(&settings)?;
        let watcher = Watcher::start(&settings, writer.clone())?;
        Ok(Self { writer, readers, settings, bells, watcher: Mutex::new(Some(watcher)) })
    }

    /// Finishes what waits, copies the journal into the file and closes it. Calls after it are
    /// refused as unavailable.
    pub async fn close(&self) -> Result<()> {
        self.watcher.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.readers.close().await;
        self.writer.close().await
    }

    /// How many transactions this handle has committed: fewer than calls when many came at once.
    pub fn commits(&self) -> u64 {
        self.writer.commits()
    }
}

#[async_trait]
impl Storage for SqliteStorage {
    async fn enqueue(&self, entries: Vec<Entry>, now: Timestamp) -> Result<Vec<Enqueued>> {
        let rows = entries.len();
        self.writer.write(rows, move |tx, effects| work::enqueue(tx, &entries, now, effects)).await
    }

    async fn claim(&self, claim: Claim, now: Timestamp) -> Result<Vec<Claimed>> {
        let (rows, bells, queue) = (claim.limit, Arc::clone(&self.bells), claim.queue.clone());
        let claimed = self
            .writer
            .write(rows, move |tx, effects| work::claim(tx, (&claim, &bells.marks), now, effects))
            .await;
        if claimed.is_err() {
            self.bells.marks.forget_all(&queue);
        }
        claimed
    }

    async fn extend(
        &self,
        leases: &[LeaseRef],
        until: Timestamp,
        _now: Timestamp,
    ) -> Result<Vec<Extended>> {
        let leases = leases.to_vec();
        self.writer.write(leases.len(), move |tx, _| work::extend(tx, &leases, until)).await
    }

    async fn settle(&self, settlements: Vec<Settlement>, now: Timestamp) -> Result<Vec<Settled>> {
        let rows = settlements.len();
        self.writer
            .write(rows, move |tx, effects| work::settle(tx, &settlements, now, effects))
            .await
    }

    async fn keep(&self, keeps: Vec<Keep>, _now: Timestamp) -> Result<Vec<Extended>> {
        self.writer.write(keeps.len(), move |tx, _| work::keep(tx, &keeps)).await
    }

    async fn permit(&self, permit: Permit, now: Timestamp) -> Result<Permitted> {
        self.writer.write(1, move |tx, _| rates::permit(tx, &permit, now)).await
    }

    async fn record(&self, records: Vec<BrokerRecord>, now: Timestamp) -> Result<()> {
        self.writer
            .write(records.len(), move |tx, effects| work::record(tx, &records, now, effects))
            .await
    }

    async fn command(&self, command: Command, now: Timestamp) -> Result<Commanded> {
        self.writer.write(1, move |tx, effects| commands::command(tx, &command, now, effects)).await
    }

    async fn declare(
        &self,
        record: JobRecord,
        seen: Option<u64>,
        now: Timestamp,
    ) -> Result<Declared> {
        self.writer
            .write(1, move |tx, effects| jobs::declare(tx, &record, seen, now, effects))
            .await
    }

    async fn due_jobs(&self, limit: usize, now: Timestamp) -> Result<Vec<DueJob>> {
        self.readers.read(move |connection| jobs::due_jobs(connection, limit, now)).await
    }

    async fn fire(&self, firings: Vec<Firing>, now: Timestamp) -> Result<Vec<Fired>> {
        let rows = firings.iter().map(|firing| 1 + firing.messages.len()).sum();
        self.writer.write(rows, move |tx, effects| jobs::fire(tx, &firings, now, effects)).await
    }

    async fn steer(
        &self,
        job: &JobName,
        steer: Steer,
        seen: u64,
        now: Timestamp,
    ) -> Result<Steered> {
        let job = job.clone();
        self.writer
            .write(1, move |tx, effects| jobs::steer(tx, &job, (&steer, seen), now, effects))
            .await
    }

    async fn remove_job(&self, job: &JobName, seen: u64, _now: Timestamp) -> Result<Steered> {
        let job = job.clone();
        self.writer.write(1, move |tx, effects| jobs::remove(tx, &job, seen, effects)).await
    }

    async fn reclaim(&self, reclaim: Reclaim, now: Timestamp) -> Result<Vec<Claimed>> {
        let rows = reclaim.limit;
        self.writer.write(rows, move |tx, _| upkeep::reclaim(tx, &reclaim, now)).await
    }

    async fn beat(&self, process: ProcessId, until: Timestamp, now: Timestamp) -> Result<()> {
        self.writer.write(1, move |tx, _| upkeep::beat(tx, process, until, now)).await
    }

    async fn join(&self, topic: &Topic, group: &str, now: Timestamp) -> Result<()> {
        let (topic, group) = (topic.clone(), group.to_owned());
        self.writer.write(1, move |tx, _| groups::join(tx, &topic, &group, now)).await
    }

    async fn groups(&self) -> Result<Vec<(Topic, String)>> {
        self.readers.read(groups::list).await
    }

    async fn prune(&self, prune: Prune, now: Timestamp) -> Result<Pruned> {
        let rows = prune.limit;
        self.writer.write(rows, move |tx, effects| upkeep::prune(tx, prune, now, effects)).await
    }

    async fn restore(&self, records: Vec<MessageRecord>, now: Timestamp) -> Result<Vec<Enqueued>> {
        let rows = records.len();
        self.writer.write(rows, move |tx, effects| work::restore(tx, &records, now, effects)).await
    }

    async fn next_due(&self, line: &Line) -> Result<Option<Timestamp>> {
        let looked = self.look(std::slice::from_ref(line)).await?;
        Ok(looked.into_iter().next().flatten())
    }

    fn wakeup(&self, line: &Line) -> Wakeup {
        self.bells.wakeup(line)
    }

    async fn time(&self) -> Result<Timestamp> {
        Ok(self.settings.clock.now())
    }

    async fn look(&self, lines: &[Line]) -> Result<Vec<Option<Timestamp>>> {
        let asking = self.bells.asking(lines);
        let wanted = lines.to_vec();
        let due = self.readers.read(move |connection| due::due(connection, &wanted)).await?;
        asking.told(&due);
        Ok(due)
    }

    /// The watcher hears them, within about a tenth of a second.
    fn hears_others(&self) -> bool {
        true
    }
}
