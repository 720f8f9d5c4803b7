//! Benchmarks: prints measured figures beside their targets. A run never fails because a machine is slow, and
//! tests never measure time.

// A benchmark prints, and reads the real clock.
#![allow(clippy::print_stdout, clippy::disallowed_methods)]

mod core_suite;
mod figure;
mod jobs_suite;
mod rates;
mod server_suite;
mod storage_suite;
mod transport_suite;

use clap::{Parser, ValueEnum};

use crate::figure::{Figure, SkippedPart};

/// Allocator of the shipped binary `punctual`, so that measurements match it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures Punctual.
#[derive(Parser)]
struct Arguments {
    /// Suite to measure.
    #[arg(value_enum, default_value = "core")]
    suite: Suite,
    /// Measure only this part of the suite: throughput, cron, idle or punctuality of the core; sqlite,
    /// postgres or idle of the storages; memory, sqlite, dispatch or postgres of the jobs; enqueue,
    /// sqlite, postgres, start or viewers of the server; memory, immediate, or the name of a broker of the
    /// transports.
    #[arg(long)]
    only: Option<String>,
    /// Number of messages to measure rates with; default a million in memory, 100,000 in storages and brokers. For
    /// the server the number of stored rows; default a million.
    #[arg(long)]
    messages: Option<usize>,
    /// Print JSON lines instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Suite {
    /// The core in memory.
    Core,
    /// Jobs: many schedules, the cost of one dispatch, many one-time jobs due within ten seconds.
    Jobs,
    /// The server: enqueueing over HTTP, lists of a million rows, the dashboard, the program itself.
    Server,
    /// The durable storages, beside raw loops over the same rows.
    Storage,
    /// The transports: memory, the cost of delays for immediate messages, brokers beside their bare clients.
    Transport,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let only = arguments.only.as_deref();
    let figures = match arguments.suite {
        Suite::Core => core_suite::run(only, arguments.messages.unwrap_or(1_000_000) as u64)?,
        Suite::Jobs => jobs_suite::run(only)?,
        Suite::Storage => storage_suite::run(only, arguments.messages.unwrap_or(100_000))?,
        Suite::Server => {
            return whole(server_suite::run(only, arguments.messages)?, arguments.json);
        }
        Suite::Transport => {
            return whole(transport_suite::run(only, arguments.messages)?, arguments.json);
        }
    };
    figure::print(&figures, arguments.json)
}

/// Prints figures with details, then all of them in one table with the parts that were not measured.
fn whole((figures, skipped): (Vec<Figure>, Vec<SkippedPart>), json: bool) -> anyhow::Result<()> {
    figure::print(&figures, json)?;
    figure::summary(&figures, &skipped, json)
}
