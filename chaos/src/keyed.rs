//! The kill loop of keyed requests: servers that publish for others are killed again and again, the callers
//! repeat what was not answered, and in the end every key must have had one effect and one answer.
//!
//! The storage is a SQLite file or a PostgreSQL of the run's own, which is crashed as well.

mod callers;
pub mod check;
mod client;
mod database;
pub mod server;
mod servers;
mod stored;
pub mod table;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use punctual::clock::{add, between};
use punctual::{Clock, SystemClock};

use self::callers::Callers;
use self::database::Database;
use self::servers::Servers;
use self::table::Outcome;
use crate::dice::Dice;
use crate::open::open_lazily;
use crate::process::LOOK;

/// Between two strikes at least and at most.
const REST: (Duration, Duration) = (Duration::from_millis(1_500), Duration::from_millis(4_000));
/// How long a crashed database stays away, at least and at most.
const AWAY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_millis(2_000));
/// The longest a kill may take on average.
const KILL_MAX: Duration = Duration::from_secs(10);

/// What a run is to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program that has the subcommand `server`.
    pub program: PathBuf,
    /// Whether the storage is PostgreSQL; else it is SQLite.
    pub postgres: bool,
    /// How many servers are killed at least.
    pub kills: usize,
    /// After how many kills the database is crashed, where that is possible.
    pub kills_per_crash: usize,
    /// Where all random choices begin.
    pub seed: u64,
}

impl Plan {
    /// Returns the name of the storage.
    pub fn storage(&self) -> &'static str {
        if self.postgres { "postgres" } else { "sqlite" }
    }
}

/// Runs one storage through it; logs of the servers go to a folder.
pub async fn run(plan: &Plan, folder: &Path) -> Result<Outcome> {
    std::fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    let mut database = Database::start(plan.postgres, folder)?;
    // Makes the tables before several servers do.
    let opened = open_lazily(&database.address(), servers::SCHEMA).await?;
    opened.storage.time().await?;
    opened.inspect.counts(SystemClock.now()).await?;
    let dice = Dice::new(plan.seed);
    let mut servers = Servers::start(plan, &database.address(), folder, dice.for_one(1))?;
    let callers = Callers::start(servers.ports(), &dice.for_one(2));
    let begun = SystemClock.now();
    let crashes = strike(plan, &mut servers, &mut database, dice.for_one(3)).await?;
    let seconds = between(begun, SystemClock.now()).as_secs();
    let callers = callers.stop();
    servers.wake_all()?;
    loop {
        servers.look(false)?;
        if callers.are_done() {
            break;
        }
        SystemClock.sleep_until(add(SystemClock.now(), LOOK)).await;
    }
    let stories = callers.stories();
    servers.stop().await?;
    let stored = stored::read(&*opened.inspect).await?;
    let mut judgement = check::judge(&stories, &stored);
    judgement.wrong.extend(servers.troubles().iter().cloned());
    let fates = servers.fates().clone();
    let (storage, pauses) = (plan.storage(), servers.pauses());
    Ok(Outcome { storage, fates, pauses, crashes, judgement, seconds })
}

/// Kills until there were enough; returns how often the database was crashed.
async fn strike(
    plan: &Plan,
    servers: &mut Servers,
    database: &mut Database,
    mut dice: Dice,
) -> Result<usize> {
    let kills_max = u32::try_from(plan.kills).unwrap_or(u32::MAX).saturating_add(6);
    let deadline = add(SystemClock.now(), KILL_MAX.saturating_mul(kills_max));
    let mut next = add(SystemClock.now(), REST.1);
    let mut crashes = 0;
    while servers.kills() < plan.kills {
        let now = SystemClock.now();
        anyhow::ensure!(now < deadline, "only {} of {} kills", servers.kills(), plan.kills);
        servers.look(true)?;
        if now >= next {
            servers.strike(&mut dice)?;
            next = add(now, dice.between(REST.0, REST.1));
        }
        if plan.postgres && servers.kills() >= (crashes + 1) * plan.kills_per_crash {
            tokio::task::block_in_place(|| database.crash())?;
            SystemClock.sleep_until(add(now, dice.between(AWAY.0, AWAY.1))).await;
            tokio::task::block_in_place(|| database.serve())?;
            crashes += 1;
        }
        SystemClock.sleep_until(add(SystemClock.now(), LOOK)).await;
    }
    Ok(crashes)
}
