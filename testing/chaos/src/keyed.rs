//! Kill loop of keyed requests: servers are killed repeatedly, callers repeat unanswered requests, and in the end
//! every idempotency key must have one effect and one response.
//!
//! The storage is a SQLite file or a private PostgreSQL, which is crashed as well.

mod callers;
pub mod check;
mod client;
mod database;
mod leases;
pub mod server;
mod servers;
mod stored_messages;
pub mod table;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use punctual::clock::{add, between};
use punctual::{Clock, SystemClock};

use self::callers::Callers;
use self::check::{KeyHistory, RequestAttempt};
use self::database::Database;
use self::servers::Servers;
use self::table::KeyedRunReport;
use crate::open::open_lazily;
use crate::process::POLL_INTERVAL;
use crate::random::SeededRandom;

/// Shortest and longest time between two kills.
const KILL_INTERVAL: (Duration, Duration) =
    (Duration::from_millis(1_500), Duration::from_millis(4_000));
/// Shortest and longest outage of a crashed database.
const OUTAGE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_millis(2_000));
/// Longest average time of a kill.
const KILL_TIME_MAX: Duration = Duration::from_secs(10);

/// Plan of a run.
#[derive(Clone, Debug)]
pub struct KeyedPlan {
    /// Program with the subcommand `server`.
    pub program: PathBuf,
    /// Whether the storage is PostgreSQL; otherwise it is SQLite.
    pub postgres: bool,
    /// Smallest number of kills.
    pub kills: usize,
    /// Number of kills between two crashes of PostgreSQL.
    pub kills_per_crash: usize,
    /// Seed of all random choices.
    pub seed: u64,
}

impl KeyedPlan {
    /// Returns the name of the storage.
    pub fn storage(&self) -> &'static str {
        if self.postgres { "postgres" } else { "sqlite" }
    }
}

/// Runs the kill loop on one storage; writes logs and ledgers to a folder.
pub async fn run(plan: &KeyedPlan, folder: &Path) -> Result<KeyedRunReport> {
    std::fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    let mut database = Database::start(plan.postgres, folder)?;
    // Creates the tables before several servers start.
    let opened = open_lazily(&database.address(), servers::SCHEMA).await?;
    opened.storage.time().await?;
    opened.inspect.counts(SystemClock.now()).await?;
    let random = SeededRandom::new(plan.seed);
    let mut servers = Servers::start(plan, &database.address(), folder, random.fork(1))?;
    let callers = Callers::start(servers.ports(), &random.fork(2));
    let begun = SystemClock.now();
    let crashes = kill_all(plan, &mut servers, &mut database, random.fork(3)).await?;
    let seconds = between(begun, SystemClock.now()).as_secs();
    let callers = callers.stop();
    servers.resume_all()?;
    loop {
        servers.restart_ended(false)?;
        if callers.are_done() {
            break;
        }
        SystemClock.sleep_until(add(SystemClock.now(), POLL_INTERVAL)).await;
    }
    let histories = callers.histories();
    servers.stop().await?;
    record_requests(&histories, folder)?;
    let stored_messages = stored_messages::read(&*opened.inspect).await?;
    let leases = leases::read(folder, &servers, (&histories, callers.begun()))?;
    let mut check_result = check::verify(&histories, &stored_messages, &leases);
    check_result.violations.extend(servers.problems().iter().cloned());
    let ends = servers.ends().clone();
    let (storage, pauses) = (plan.storage(), servers.pauses());
    Ok(KeyedRunReport { storage, ends, pauses, crashes, check_result, seconds })
}

/// Writes all requests of the callers to a file, with which a violation can be explained.
fn record_requests(histories: &[KeyHistory], folder: &Path) -> Result<()> {
    let mut lines = String::new();
    for history in histories {
        for RequestAttempt { port, from_ms, to_ms, result, .. } in &history.attempts {
            // Writing into a string does not fail.
            let _ = writeln!(lines, "{} {port} {from_ms} {to_ms} {result:?}", history.key);
        }
    }
    std::fs::write(folder.join("requests.txt"), lines).context("write the requests")
}

/// Kills servers until the planned number is reached; returns the number of database crashes.
async fn kill_all(
    plan: &KeyedPlan,
    servers: &mut Servers,
    database: &mut Database,
    mut random: SeededRandom,
) -> Result<usize> {
    let kills_max = u32::try_from(plan.kills).unwrap_or(u32::MAX).saturating_add(6);
    let deadline = add(SystemClock.now(), KILL_TIME_MAX.saturating_mul(kills_max));
    let mut next = add(SystemClock.now(), KILL_INTERVAL.1);
    let mut crashes = 0;
    while servers.kills() < plan.kills {
        let now = SystemClock.now();
        anyhow::ensure!(now < deadline, "only {} of {} kills", servers.kills(), plan.kills);
        servers.restart_ended(true)?;
        if now >= next {
            servers.kill_or_pause(&mut random)?;
            next = add(now, random.between(KILL_INTERVAL.0, KILL_INTERVAL.1));
        }
        if plan.postgres && servers.kills() >= (crashes + 1) * plan.kills_per_crash {
            tokio::task::block_in_place(|| database.crash())?;
            SystemClock.sleep_until(add(now, random.between(OUTAGE.0, OUTAGE.1))).await;
            tokio::task::block_in_place(|| database.serve())?;
            crashes += 1;
        }
        SystemClock.sleep_until(add(SystemClock.now(), POLL_INTERVAL)).await;
    }
    Ok(crashes)
}
