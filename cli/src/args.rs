//! What the command line accepts. Nothing here runs anything.

use clap::{Parser, Subcommand};

use crate::commands::cron::CronCommand;
use crate::commands::demo::DemoArgs;

/// Messages now, messages later, and work on a schedule.
#[derive(Debug, Parser)]
#[command(name = "punctual", version, about)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The first word after `punctual`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Try out cron expressions.
    #[command(subcommand)]
    Cron(CronCommand),
    /// Watch Punctual at work: a cron job, a delayed message, a retry and a dead letter.
    Demo(DemoArgs),
}
