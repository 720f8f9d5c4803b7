//! Benchmarks. Figures are printed with what was asked for beside them; a run never fails because a
//! machine is slow, and tests never measure time.

// A benchmark prints, and reads the real clock: that is its whole purpose.
#![allow(clippy::print_stdout, clippy::disallowed_methods)]

mod core_suite;
mod figure;
mod jobs_suite;
mod rates;
mod server_suite;
mod storage_suite;
mod transport_suite;

use clap::{Parser, ValueEnum};

use crate::figure::{Figure, LeftOut};

/// The allocator of the binary `punctual`, so that what is measured is what is shipped.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures Punctual.
#[derive(Parser)]
struct Arguments {
    /// What to measure.
    #[arg(value_enum, default_value = "core")]
    suite: Suite,
    /// Measure only this part of the suite: throughput, cron, idle or punctuality of the core; sqlite,
    /// postgres or idle of the storages; memory, sqlite, dispatch or postgres of the jobs; enqueue,
    /// sqlite, postgres, start or viewers of the server; memory, immediate, or the name of a broker of the
    /// transports.
    #[arg(long)]
    only: Option<String>,
    /// How many messages rates are measured with; a million in memory, 100,000 in storages and brokers. For the
    /// server how many rows are stored; a million.
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
    /// Jobs: many schedules, the cost of one dispatch, one-time jobs that are due at once.
    Jobs,
    /// The server: enqueueing over HTTP, lists of a million rows, the dashboard, the program itself.
    Server,
    /// The durable storages, beside raw loops over the same rows.
    Storage,
    /// The transports: memory, the cost of delays to what is not delayed, brokers beside their bare clients.
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

/// Prints figures, then all of them in one table with what was left out.
fn whole((figures, left_out): (Vec<Figure>, Vec<LeftOut>), json: bool) -> anyhow::Result<()> {
    figure::print(&figures, json)?;
    figure::summary(&figures, &left_out, json)
}
