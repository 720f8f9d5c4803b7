//! Soak test: restarts a broker repeatedly under steady load, with a ledger of every message.
//!
//! Two processes receive as one group, and one of them also publishes. Some messages fail once and some always, so
//! that retries, held messages and dead letters are in flight at each restart. In the end every confirmed message
//! must have been handled or be a dead letter.

mod ledger;
mod member;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use punctual::clock::{add, between};
use punctual::jiff::Timestamp;
use punctual::{Clock, SystemClock};
use xtask::servers::{Durability, Running, named};

pub use ledger::{DeadLetterCause, Kind, SoakLedger, Totals};
use member::Member;

/// Time between two publishes.
const PACE: Duration = Duration::from_millis(5);
/// Longest time until all messages are settled after the last restart.
const TIMEOUT: Duration = Duration::from_secs(180);
/// Time between two checks of the ledger, and the wait after a refused publish.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Options of a soak.
#[derive(clap::Args, Clone, Debug)]
pub struct SoakOptions {
    /// Name of the broker: redis, nats, rabbitmq or mqtt.
    pub broker: String,
    /// Duration of publishing, in seconds.
    #[arg(long, default_value_t = 600)]
    pub seconds: u64,
    /// Time between two restarts of the broker, in seconds; 0 for no restart.
    #[arg(long, default_value_t = 60)]
    pub restart_every: u64,
}

/// Result of a soak.
#[derive(Clone, Debug)]
pub struct SoakReport {
    /// Name of the broker.
    pub broker: String,
    /// Number of restarts.
    pub restarts: u64,
    /// Totals of the ledger.
    pub totals: Totals,
    /// Time from the last publish until all messages were settled, in seconds.
    pub drain_seconds: u64,
}

/// Runs a soak in a temporary folder.
pub async fn run(options: &SoakOptions) -> Result<SoakReport> {
    let folder = std::env::temp_dir().join(format!("punctual-soak-{}", std::process::id()));
    std::fs::create_dir_all(&folder).context("create the folder of the soak")?;
    let done = soak(options, folder.clone()).await;
    std::fs::remove_dir_all(&folder).context("remove the folder of the soak")?;
    done
}

async fn soak(options: &SoakOptions, folder: PathBuf) -> Result<SoakReport> {
    let server = named(&options.broker)?;
    let records = folder.clone();
    let running =
        tokio::task::spawn_blocking(move || Running::start(server, Durability::Durable, &records));
    let running = running.await??;
    let ledger = Arc::new(SoakLedger::default());
    let file = folder.join("soak.db");
    let address = running.address();
    let first = Member::start(&address, &file, &ledger).await?;
    let second = Member::start(&address, &file, &ledger).await?;
    let until = add(SystemClock.now(), Duration::from_secs(options.seconds));
    let restarting = tokio::spawn(restart(running, options.restart_every, until));
    publish(&first, &ledger, until).await;
    let (_running, restarts) = restarting.await??;
    let stopped_at = SystemClock.now();
    let give_up_at = add(stopped_at, TIMEOUT);
    while !ledger.is_settled() && SystemClock.now() < give_up_at {
        SystemClock.sleep_until(add(SystemClock.now(), POLL_INTERVAL)).await;
    }
    let drain_seconds = between(stopped_at, SystemClock.now()).as_secs();
    first.stop().await?;
    second.stop().await?;
    let totals = ledger.totals();
    ensure!(totals.confirmed > 0, "nothing was published");
    Ok(SoakReport { broker: options.broker.clone(), restarts, totals, drain_seconds })
}

/// Publishes one message after the other. A refused message is not sent again, since it may have arrived.
async fn publish(member: &Member, ledger: &SoakLedger, until: Timestamp) {
    let mut number = 0;
    while SystemClock.now() < until {
        let pace = add(SystemClock.now(), PACE);
        ledger.sent(number);
        match member.publish(number).await {
            Ok(()) => ledger.confirmed(number),
            Err(_) => SystemClock.sleep_until(add(SystemClock.now(), POLL_INTERVAL)).await,
        }
        number += 1;
        SystemClock.sleep_until(pace).await;
    }
}

/// Restarts the broker until an instant; returns the running broker and the number of restarts.
async fn restart(mut running: Running, every: u64, until: Timestamp) -> Result<(Running, u64)> {
    let mut restarts = 0;
    loop {
        let next = add(SystemClock.now(), Duration::from_secs(every.max(1)));
        if every == 0 || next >= until {
            SystemClock.sleep_until(until).await;
            return Ok((running, restarts));
        }
        SystemClock.sleep_until(next).await;
        let restarted = tokio::task::spawn_blocking(move || {
            running.halt()?;
            running.serve()?;
            anyhow::Ok(running)
        });
        running = restarted.await??;
        restarts += 1;
    }
}
