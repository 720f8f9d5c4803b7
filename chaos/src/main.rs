//! The program: the driver, and the workers it starts and kills.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool of the terminal talks to the terminal"
)]

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand, ValueEnum};
use punctual_chaos::drive::{self, Place, Plan};
use punctual_chaos::keyed;
use punctual_chaos::table::{self, Outcome};
use punctual_chaos::worker;

/// Where the database is.
const VARIABLE: &str = "PUNCTUAL_POSTGRES_URL";
/// After how many kills of servers their database is crashed.
const KILLS_PER_CRASH: usize = 12;

#[derive(Parser)]
#[command(name = "punctual-chaos", about = "Kills workers and keeps a ledger of every message.")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Kill workers of one storage, or of each at the same time, and judge.
    Run(Options),
    /// Kill servers under keyed requests, crash their database, and judge.
    Keyed(Options),
    /// What is killed; started by `run`.
    #[command(hide = true)]
    Worker(worker::Options),
    /// What is killed; started by `keyed`.
    #[command(hide = true)]
    Server(keyed::server::Options),
}

#[derive(clap::Args)]
struct Options {
    /// How many workers are killed, for each storage.
    #[arg(long, default_value_t = 50)]
    kills: usize,
    /// Only this storage.
    #[arg(long)]
    storage: Option<Storage>,
    /// How many workers share the storage; for `run`.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=16))]
    workers: u8,
    /// Where the random choices begin; without it the present time does.
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

/// Returns whether everything is as promised.
async fn run(options: &Options) -> Result<bool> {
    let seed = options.seed.unwrap_or_else(present_seed);
    println!("seed {seed}");
    let folder = options.keep.clone().unwrap_or_else(|| {
        std::env::temp_dir().join(format!("punctual-chaos-{}", std::process::id()))
    });
    let plan = |storage: Place| Plan {
        storage,
        schema: format!("punctual_chaos_{}", std::process::id()),
        kills: options.kills,
        workers: usize::from(options.workers),
        seed,
    };
    let mut running = Vec::new();
    for storage in places(options.storage)? {
        let (plan, folder) = (plan(storage), folder.clone());
        running.push(tokio::spawn(async move {
            let own = folder.join(plan.storage.name());
            let outcome = drive::run(&plan, &own).await;
            outcome.with_context(|| format!("the run on {}", plan.storage.name()))
        }));
    }
    let mut outcomes = Vec::new();
    for run in running {
        outcomes.push(run.await??);
    }
    println!("\n{}", table::render(&outcomes));
    let good = outcomes.iter().filter(|outcome| !report(outcome)).count() == 0;
    if options.keep.is_none() && good {
        std::fs::remove_dir_all(&folder).context("remove the ledgers")?;
    } else {
        println!("the ledgers are in {}", folder.display());
    }
    Ok(good)
}

/// Returns whether everything is as promised.
async fn run_keyed(options: &Options) -> Result<bool> {
    let seed = options.seed.unwrap_or_else(present_seed);
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
        let plan = keyed::Plan {
            program: program.clone(),
            postgres,
            kills: options.kills,
            kills_per_crash: KILLS_PER_CRASH,
            seed,
        };
        let own = folder.join(plan.storage());
        running.push(tokio::spawn(async move {
            let outcome = keyed::run(&plan, &own).await;
            outcome.with_context(|| format!("the run on {}", plan.storage()))
        }));
    }
    let mut outcomes = Vec::new();
    for run in running {
        outcomes.push(run.await??);
    }
    println!("\n{}", keyed::table::render(&outcomes));
    for outcome in &outcomes {
        for what in &outcome.judgement.wrong {
            println!("{}: {what}", outcome.storage);
        }
    }
    let good = outcomes.iter().all(|outcome| outcome.judgement.is_good());
    if options.keep.is_none() && good {
        std::fs::remove_dir_all(&folder).context("remove the logs")?;
    } else {
        println!("the logs are in {}", folder.display());
    }
    Ok(good)
}

fn places(only: Option<Storage>) -> Result<Vec<Place>> {
    let mut places = Vec::new();
    if only != Some(Storage::Postgres) {
        places.push(Place::Sqlite);
    }
    if only != Some(Storage::Sqlite) {
        let address = std::env::var(VARIABLE)
            .with_context(|| format!("{VARIABLE} is not set; `cargo xtask chaos` sets it"))?;
        places.push(Place::Postgres(address));
    }
    Ok(places)
}

/// Says what is wrong, if anything is.
fn report(outcome: &Outcome) -> bool {
    for id in &outcome.judgement.lost {
        println!("{}: lost {id}", outcome.storage);
    }
    for what in &outcome.judgement.wrong {
        println!("{}: {what}", outcome.storage);
    }
    outcome.judgement.is_good()
}

fn present_seed() -> u64 {
    use punctual::{Clock, SystemClock};
    u64::try_from(SystemClock.now().as_millisecond()).unwrap_or_default()
}
