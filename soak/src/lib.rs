//! A soak: a broker under steady load that is restarted again and again, with a ledger of every message.
//!
//! Two processes receive as one group, and one of them also publishes. Some messages fail at first and
//! some always, so that retries, held messages and dead letters are under way whenever the broker goes. In
//! the end everything that was confirmed must have been handled or be a dead letter.

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

pub use ledger::{Death, Kind, Ledger, Sums};
use member::Member;

/// How often a message is published.
const PACE: Duration = Duration::from_millis(5);
/// How long the last messages may take when nothing is restarted any more.
const TIMEOUT: Duration = Duration::from_secs(180);
/// How often the ledger is looked at then.
const LOOK: Duration = Duration::from_millis(200);

/// What a soak does.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// The broker by its name: redis, nats, rabbitmq, mqtt.
    pub broker: String,
    /// How long messages are published, in seconds.
    #[arg(long, default_value_t = 600)]
    pub seconds: u64,
    /// How long the broker is left alone between two restarts, in seconds; 0 for no restart.
    #[arg(long, default_value_t = 60)]
    pub restart_every: u64,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The broker.
    pub broker: String,
    /// How often it was restarted.
    pub restarts: u64,
    /// The ledger's sums.
    pub sums: Sums,
    /// How long it took until nothing was left to do, in seconds.
    pub drain_seconds: u64,
}

/// Lets a broker soak.
pub async fn run(options: &Options) -> Result<Outcome> {
    let folder = std::env::temp_dir().join(format!("punctual-soak-{}", std::process::id()));
    std::fs::create_dir_all(&folder).context("create the folder of the soak")?;
    let done = soak(options, folder.clone()).await;
    std::fs::remove_dir_all(&folder).context("remove the folder of the soak")?;
    done
}

async fn soak(options: &Options, folder: PathBuf) -> Result<Outcome> {
    let server = named(&options.broker)?;
    let records = folder.clone();
    let running =
        tokio::task::spawn_blocking(move || Running::start(server, Durability::Durable, &records));
    let running = running.await??;
    let ledger = Arc::new(Ledger::default());
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
        SystemClock.sleep_until(add(SystemClock.now(), LOOK)).await;
    }
    let drain_seconds = between(stopped_at, SystemClock.now()).as_secs();
    first.stop().await?;
    second.stop().await?;
    let sums = ledger.sums();
    ensure!(sums.confirmed > 0, "nothing was published");
    Ok(Outcome { broker: options.broker.clone(), restarts, sums, drain_seconds })
}

/// Publishes one message after the other. One that is refused is not sent again: it may have arrived.
async fn publish(member: &Member, ledger: &Ledger, until: Timestamp) {
    let mut number = 0;
    while SystemClock.now() < until {
        let pace = add(SystemClock.now(), PACE);
        ledger.asked(number);
        match member.publish(number).await {
            Ok(()) => ledger.confirmed(number),
            Err(_) => SystemClock.sleep_until(add(SystemClock.now(), LOOK)).await,
        }
        number += 1;
        SystemClock.sleep_until(pace).await;
    }
}

/// Restarts the broker until an instant; answers it, running, and how often.
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
