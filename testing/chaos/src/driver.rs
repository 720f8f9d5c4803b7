//! Driver of the kill loop: starts workers, publishes messages, kills, waits until all are done, and checks.

mod history;
mod plan;
mod publisher;
mod workers;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use punctual::clock::{add, between};
use punctual::jiff::Timestamp;
use punctual::model::MessageState;
use punctual::{Clock, Inspect, SystemClock};

use crate::check::{self, ProcessEnd, ProcessLedger};
use crate::fuse::Fuse;
use crate::ledger::Ledger;
use crate::open::open;
use crate::process::POLL_INTERVAL;
use crate::random::SeededRandom;
use crate::recording_storage::RecordingStorage;
use crate::table::RunReport;
pub use plan::{KillPlan, StorageTarget};
use workers::Workers;

/// Longest time from the last kill until all messages are done. A worker killed while it rescues keeps its leases
/// until its heartbeat expires, 30 s later.
const DRAIN_MAX: Duration = Duration::from_secs(120);
/// Name of the driver's own ledger.
const DRIVER: &str = "driver";

/// Runs the kill loop on one storage.
pub async fn run(plan: &KillPlan, folder: &Path) -> Result<RunReport> {
    std::fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    let address = plan.address(folder);
    let ledger = Arc::new(Ledger::create(folder, DRIVER)?);
    let opened = open(&address, &plan.schema).await?;
    let recording = Arc::new(RecordingStorage::new(opened, ledger.clone(), Fuse::default()));
    let random = SeededRandom::new(plan.seed);
    let publisher = publisher::RunningPublisher::start(recording.clone(), ledger, random.fork(1))?;
    let workers = Workers::new(plan, address, folder.to_owned(), random.fork(2))?;
    let begun = SystemClock.now();
    let mut driver = Driver { workers, random: random.fork(3), folder: folder.to_owned() };
    driver.kill_all(plan, begun).await?;
    publisher.stop().await?;
    let killed_at = SystemClock.now();
    let left = driver.drain(&*recording).await?;
    let drained_at = SystemClock.now();
    driver.workers.stop().await?;
    let mut report = driver.verify(plan, &*recording).await?;
    report.seconds = between(begun, killed_at).as_secs();
    report.drain_seconds = between(killed_at, drained_at).as_secs();
    if left > 0 {
        report
            .check_result
            .violations
            .push(format!("{left} messages are left after {DRAIN_MAX:?}"));
    }
    Ok(report)
}

struct Driver {
    workers: Workers,
    random: SeededRandom,
    folder: PathBuf,
}

impl Driver {
    /// Kills workers until the planned number is reached.
    async fn kill_all(&mut self, plan: &KillPlan, begun: Timestamp) -> Result<()> {
        let deadline = add(begun, plan.duration_max());
        let mut next = add(begun, Duration::from_secs(1));
        while self.workers.kills() < plan.kills {
            anyhow::ensure!(
                SystemClock.now() < deadline,
                "only {} of {} kills within {:?}",
                self.workers.kills(),
                plan.kills,
                plan.duration_max()
            );
            self.workers.replace_ended(true)?;
            if SystemClock.now() >= next {
                self.workers.kill_or_pause(&mut self.random)?;
                let rest = self.random.between(plan::KILL_INTERVAL_MIN, plan::KILL_INTERVAL_MAX);
                next = add(SystemClock.now(), rest);
            }
            SystemClock.sleep_until(add(SystemClock.now(), POLL_INTERVAL)).await;
        }
        Ok(())
    }

    /// Waits until no message is pending or running; returns the number of messages left at the timeout.
    async fn drain(&mut self, inspect: &dyn Inspect) -> Result<u64> {
        self.workers.resume_all()?;
        let deadline = add(SystemClock.now(), DRAIN_MAX);
        loop {
            self.workers.replace_ended(false)?;
            let counts = inspect.counts(SystemClock.now()).await?;
            let left = counts.total(MessageState::Pending) + counts.total(MessageState::Running);
            if left == 0 || SystemClock.now() >= deadline {
                return Ok(left);
            }
            SystemClock.sleep_until(add(SystemClock.now(), POLL_INTERVAL * 10)).await;
        }
    }

    async fn verify(&self, plan: &KillPlan, inspect: &dyn Inspect) -> Result<RunReport> {
        let driver = [(DRIVER.to_owned(), ProcessEnd::Stopped)];
        let mut ledgers = Vec::new();
        for (process, end) in self.workers.ended().iter().chain(&driver) {
            let events = Ledger::read(&self.folder, process)?;
            ledgers.push(ProcessLedger { process: process.clone(), end: *end, events });
        }
        let history = history::read(inspect).await?;
        let mut check_result = check::verify(&ledgers, &history);
        check_result.violations.extend_from_slice(self.workers.problems());
        let mut ends = BTreeMap::new();
        for (_, end) in self.workers.ended() {
            *ends.entry(*end).or_insert(0) += 1;
        }
        let (storage, pauses) = (plan.storage.name(), self.workers.pauses());
        Ok(RunReport { storage, ends, pauses, check_result, seconds: 0, drain_seconds: 0 })
    }
}
