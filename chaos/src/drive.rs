//! The driver: starts workers, has messages published, kills, waits until all is done, and judges.

mod fleet;
mod history;
mod plan;
mod publish;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use punctual::clock::{add, between};
use punctual::jiff::Timestamp;
use punctual::model::MessageState;
use punctual::{Clock, Inspect, SystemClock};

use crate::check::{self, Fate, Story};
use crate::dice::Dice;
use crate::fuse::Fuse;
use crate::ledger::Ledger;
use crate::open::open;
use crate::process::LOOK;
use crate::table::Outcome;
use crate::watched::Watched;
use fleet::Fleet;
pub use plan::{Place, Plan};

/// After the last kill, everything has to be done within this. Whoever is killed while it rescues holds
/// what it took over until its beats have run out, 30 s later.
const DRAIN_MAX: Duration = Duration::from_secs(120);
/// The driver's own name among the ledgers.
const DRIVER: &str = "driver";

/// Runs one storage through it.
pub async fn run(plan: &Plan, folder: &Path) -> Result<Outcome> {
    std::fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    let address = plan.address(folder);
    let ledger = Arc::new(Ledger::create(folder, DRIVER)?);
    let opened = open(&address, &plan.schema).await?;
    let watched = Arc::new(Watched::new(opened, ledger.clone(), Fuse::default()));
    let dice = Dice::new(plan.seed);
    let publishing = publish::Publishing::start(watched.clone(), ledger, dice.for_one(1))?;
    let fleet = Fleet::new(plan, address, folder.to_owned(), dice.for_one(2))?;
    let begun = SystemClock.now();
    let mut driven = Driven { fleet, dice: dice.for_one(3), folder: folder.to_owned() };
    driven.kill_all(plan, begun).await?;
    publishing.stop().await?;
    let killed_at = SystemClock.now();
    let left = driven.drain(&*watched).await?;
    let drained_at = SystemClock.now();
    driven.fleet.stop().await?;
    let mut outcome = driven.judge(plan, &*watched).await?;
    outcome.seconds = between(begun, killed_at).as_secs();
    outcome.drain_seconds = between(killed_at, drained_at).as_secs();
    if left > 0 {
        outcome.judgement.wrong.push(format!("{left} messages are left after {DRAIN_MAX:?}"));
    }
    Ok(outcome)
}

struct Driven {
    fleet: Fleet,
    dice: Dice,
    folder: PathBuf,
}

impl Driven {
    /// Kills until there were enough.
    async fn kill_all(&mut self, plan: &Plan, begun: Timestamp) -> Result<()> {
        let deadline = add(begun, plan.length_max());
        let mut next = add(begun, Duration::from_secs(1));
        while self.fleet.kills() < plan.kills {
            anyhow::ensure!(
                SystemClock.now() < deadline,
                "only {} of {} kills within {:?}",
                self.fleet.kills(),
                plan.kills,
                plan.length_max()
            );
            self.fleet.look(true)?;
            if SystemClock.now() >= next {
                self.fleet.strike(&mut self.dice)?;
                let rest = self.dice.between(plan::REST_MIN, plan::REST_MAX);
                next = add(SystemClock.now(), rest);
            }
            SystemClock.sleep_until(add(SystemClock.now(), LOOK)).await;
        }
        Ok(())
    }

    /// Waits until nothing is left to do; answers how much is.
    async fn drain(&mut self, inspect: &dyn Inspect) -> Result<u64> {
        self.fleet.wake_all()?;
        let deadline = add(SystemClock.now(), DRAIN_MAX);
        loop {
            self.fleet.look(false)?;
            let counts = inspect.counts(SystemClock.now()).await?;
            let left = counts.total(MessageState::Pending) + counts.total(MessageState::Running);
            if left == 0 || SystemClock.now() >= deadline {
                return Ok(left);
            }
            SystemClock.sleep_until(add(SystemClock.now(), LOOK * 10)).await;
        }
    }

    async fn judge(&self, plan: &Plan, inspect: &dyn Inspect) -> Result<Outcome> {
        let driver = [(DRIVER.to_owned(), Fate::Ended)];
        let mut stories = Vec::new();
        for (process, fate) in self.fleet.ended().iter().chain(&driver) {
            let lines = Ledger::read(&self.folder, process)?;
            stories.push(Story { process: process.clone(), fate: *fate, lines });
        }
        let history = history::read(inspect).await?;
        let mut judgement = check::judge(&stories, &history);
        judgement.wrong.extend_from_slice(self.fleet.troubles());
        let mut fates = BTreeMap::new();
        for (_, fate) in self.fleet.ended() {
            *fates.entry(*fate).or_insert(0) += 1;
        }
        let (storage, pauses) = (plan.storage.name(), self.fleet.pauses());
        Ok(Outcome { storage, fates, pauses, judgement, seconds: 0, drain_seconds: 0 })
    }
}
