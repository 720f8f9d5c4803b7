//! Program of the soak test: runs one soak and prints the totals of its ledger in one line.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool prints")]

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use punctual_soak::{SoakOptions, SoakReport};

#[derive(Parser)]
#[command(
    name = "punctual-soak",
    about = "Restarts a broker under load and checks that no message is lost."
)]
struct Arguments {
    #[command(flatten)]
    options: SoakOptions,
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
async fn soak(options: &SoakOptions) -> Result<bool> {
    println!(
        "{} for {} s, restarted every {} s",
        options.broker, options.seconds, options.restart_every
    );
    let SoakReport { broker, restarts, totals, drain_seconds } =
        punctual_soak::run(options).await?;
    println!(
        "{broker}: {restarts} restarts; {} messages, {} confirmed = {} handled + {} dead, including {} unconfirmed \
         that arrived; {} handled more than once, {} dead only because of lost connections; \
         {drain_seconds} s until all were settled; lost {:?}, wrong {:?}",
        totals.sent,
        totals.confirmed,
        totals.handled,
        totals.dead,
        (totals.handled + totals.dead).saturating_sub(totals.confirmed),
        totals.repeated,
        totals.connection_lost,
        totals.lost,
        totals.wrong
    );
    Ok(totals.is_good())
}
