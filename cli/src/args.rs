//! What the command line accepts. Nothing here runs anything.

use clap::{Parser, Subcommand};

use crate::commands::config::ConfigCommand;
use crate::commands::consume::ConsumeArgs;
use crate::commands::cron::CronCommand;
use crate::commands::demo::DemoArgs;
use crate::commands::doctor::DoctorArgs;
use crate::commands::publish::PublishArgs;
use crate::commands::serve::ServeArgs;
use crate::commands::topics::TopicsArgs;
use crate::commands::transfer::{ExportArgs, ImportArgs, MoveArgs};

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
    /// Look at a configuration, or get one to start from.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print messages of a topic as they come.
    Consume(ConsumeArgs),
    /// Try out cron expressions.
    #[command(subcommand)]
    Cron(CronCommand),
    /// Watch Punctual at work: a cron job, a delayed message, a retry and a dead letter.
    Demo(DemoArgs),
    /// Look at a storage and say what is wrong with it. It is opened as a worker opens it: tables that
    /// are missing or old are made and brought up to date.
    Doctor(DoctorArgs),
    /// Write the jobs and unfinished messages of a storage as JSON lines.
    Export(ExportArgs),
    /// Read what `export` wrote into a storage; what is there already is left alone.
    Import(ImportArgs),
    /// Copy the jobs and unfinished messages of one storage into another.
    Move(MoveArgs),
    /// Send one message.
    Publish(PublishArgs),
    /// Run the server: jobs of the configuration, the HTTP API and the dashboard.
    Serve(ServeArgs),
    /// List the topics of a transport.
    Topics(TopicsArgs),
}
