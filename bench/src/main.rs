//! Benchmarks. Figures are printed with what was asked for beside them; a run never fails because a
//! machine is slow, and tests never measure time.

// A benchmark prints, and reads the real clock: that is its whole purpose.
#![allow(clippy::print_stdout, clippy::disallowed_methods)]

mod core_suite;
mod figure;

use clap::{Parser, ValueEnum};

/// The allocator of the binary `punctual`, so that what is measured is what is shipped.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures Punctual.
#[derive(Parser)]
struct Arguments {
    /// What to measure.
    #[arg(value_enum, default_value = "core")]
    suite: Suite,
    /// Measure only this part of the suite: throughput, cron, idle or punctuality.
    #[arg(long)]
    only: Option<String>,
    /// How many messages the throughput is measured with.
    #[arg(long, default_value_t = 1_000_000)]
    messages: u64,
    /// Print JSON lines instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Suite {
    /// The core in memory.
    Core,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let figures = match arguments.suite {
        Suite::Core => core_suite::run(arguments.only.as_deref(), arguments.messages)?,
    };
    figure::print(&figures, arguments.json)
}
