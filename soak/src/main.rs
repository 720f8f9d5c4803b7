//! The program: runs one soak and prints its ledger in one line.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool of the terminal talks to the terminal"
)]

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use punctual_soak::{Options, Outcome};

#[derive(Parser)]
#[command(name = "punctual-soak", about = "Restarts a broker under load and keeps a ledger.")]
struct Arguments {
    #[command(flatten)]
    options: Options,
}

#[tokio::main]
async fn main() -> ExitCode {
    match soak(&Arguments::parse().options).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether nothing was lost.
async fn soak(options: &Options) -> Result<bool> {
    println!(
        "{} for {} s, restarted every {} s",
        options.broker, options.seconds, options.restart_every
    );
    let Outcome { broker, restarts, sums, drain_seconds } = punctual_soak::run(options).await?;
    println!(
        "{broker}: {restarts} restarts; {} messages, {} confirmed = {} handled + {} dead, counting {} that \
         were not confirmed and came; {} handled more than once, {} dead only because deliveries were cut off; \
         {drain_seconds} s until all was done; lost {:?}, wrong {:?}",
        sums.asked,
        sums.confirmed,
        sums.handled,
        sums.dead,
        (sums.handled + sums.dead).saturating_sub(sums.confirmed),
        sums.repeated,
        sums.cut_off,
        sums.lost,
        sums.wrong
    );
    Ok(sums.is_good())
}
