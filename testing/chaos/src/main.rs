//! Program of the chaos tests: the driver, and the workers and servers that it starts and kills.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool prints")]

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand, ValueEnum};
use punctual_chaos::driver::{self, KillPlan, StorageTarget};
use punctual_chaos::keyed;
use punctual_chaos::table::{self, RunReport};
use punctual_chaos::worker;

/// Environment variable with the address of PostgreSQL.
const POSTGRES_VARIABLE: &str = "PUNCTUAL_POSTGRES_URL";
/// Number of killed servers between two crashes of their database.
const KILLS_PER_CRASH: usize = 12;

#[derive(Parser)]
#[command(name = "punctual-chaos", about = "Kills workers and servers and checks every message.")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Kill workers of one storage, or of all at the same time, and check every message.
    Run(Options),
    /// Kill servers under keyed requests, crash their database, and check every key.
    Keyed(Options),
    /// A worker to be killed; started by `run`.
    #[command(hide = true)]
    Worker(worker::WorkerOptions),
    /// A server to be killed; started by `keyed`.
    #[command(hide = true)]
    Server(keyed::server::ServerOptions),
}

#[derive(clap::Args)]
struct Options {
    /// Number of kills for each storage.
    #[arg(long, default_value_t = 50)]
    kills: usize,
    /// Run on this storage only.
    #[arg(long)]
    storage: Option<Storage>,
    /// Number of workers that share the storage; for `run`.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=16))]
    workers: u8,
    /// Seed of the random choices; the current time by default.
    #[arg(long)]
    seed: Option<u64>,
    /// Keep the ledgers in this folder.
    #[arg(long)]
    keep: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Storage {
    Sqlite,
    Postgres,
}

#[tokio::main]
async fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Worker(options) => worker::run(options).await.map(|()| true),
        Command::Server(options) => keyed::server::run(options).await.map(|()| true),
        Command::Run(options) => run(&options).await,
        Command::Keyed(options) => run_keyed(&options).await,
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the kill loop on each storage; returns whether all checks passed.
async fn run(options: &Options) -> Result<bool> {
    let seed = options.seed.unwrap_or_else(seed_from_time);
    println!("seed {seed}");
    let folder = options.keep.clone().unwrap_or_else(|| {
        std::env::temp_dir().join(format!("punctual-chaos-{}", std::process::id()))
    });
    let plan = |storage: StorageTarget| KillPlan {
        storage,
        schema: format!("punctual_chaos_{}", std::process::id()),
        kills: options.kills,
        workers: usize::from(options.workers),
        seed,
    };
    let mut running = Vec::new();
    for storage in storage_targets(options.storage)? {
        let (plan, folder) = (plan(storage), folder.clone());
        running.push(tokio::spawn(async move {
            let own = folder.join(plan.storage.name());
            let report = driver::run(&plan, &own).await;
            report.with_context(|| format!("the run on {}", plan.storage.name()))
        }));
    }
    let mut reports = Vec::new();
    for run in running {
        reports.push(run.await??);
    }
    println!("\n{}", table::render(&reports));
    let is_good = reports.iter().filter(|report| !print_violations(report)).count() == 0;
    if options.keep.is_none() && is_good {
        std::fs::remove_dir_all(&folder).context("remove the ledgers")?;
    } else {
        println!("the ledgers are in {}", folder.display());
    }
    Ok(is_good)
}

/// Runs the kill loop on each storage; returns whether all checks passed.
async fn run_keyed(options: &Options) -> Result<bool> {
    let seed = options.seed.unwrap_or_else(seed_from_time);
    println!("seed {seed}");
    let folder = options.keep.clone().unwrap_or_else(|| {
        std::env::temp_dir().join(format!("punctual-keyed-{}", std::process::id()))
    });
    let storages = match options.storage {
        None => vec![false, true],
        Some(storage) => vec![storage == Storage::Postgres],
    };
    let program = std::env::current_exe().context("find this program")?;
    let mut running = Vec::new();
    for postgres in storages {
        let plan = keyed::KeyedPlan {
            program: program.clone(),
            postgres,
            kills: options.kills,
            kills_per_crash: KILLS_PER_CRASH,
            seed,
        };
        let own = folder.join(plan.storage());
        running.push(tokio::spawn(async move {
            let report = keyed::run(&plan, &own).await;
            report.with_context(|| format!("the run on {}", plan.storage()))
        }));
    }
    let mut reports = Vec::new();
    for run in running {
        reports.push(run.await??);
    }
    println!("\n{}", keyed::table::render(&reports));
    for report in &reports {
        for what in &report.check_result.violations {
            println!("{}: {what}", report.storage);
        }
    }
    let is_good = reports.iter().all(|report| report.check_result.is_good());
    if options.keep.is_none() && is_good {
        std::fs::remove_dir_all(&folder).context("remove the logs")?;
    } else {
        println!("the logs are in {}", folder.display());
    }
    Ok(is_good)
}

fn storage_targets(only: Option<Storage>) -> Result<Vec<StorageTarget>> {
    let mut targets = Vec::new();
    if only != Some(Storage::Postgres) {
        targets.push(StorageTarget::Sqlite);
    }
    if only != Some(Storage::Sqlite) {
        let address = std::env::var(POSTGRES_VARIABLE).with_context(|| {
            format!("{POSTGRES_VARIABLE} is not set; `cargo xtask chaos` sets it")
        })?;
        targets.push(StorageTarget::Postgres(address));
    }
    Ok(targets)
}

/// Prints lost messages and violations; returns whether there are none.
fn print_violations(report: &RunReport) -> bool {
    for id in &report.check_result.lost {
        println!("{}: lost {id}", report.storage);
    }
    for what in &report.check_result.violations {
        println!("{}: {what}", report.storage);
    }
    report.check_result.is_good()
}

fn seed_from_time() -> u64 {
    use punctual::{Clock, SystemClock};
    u64::try_from(SystemClock.now().as_millisecond()).unwrap_or_default()
}
