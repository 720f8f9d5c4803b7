//! `punctual jobs`: lists, controls, creates and deletes jobs.

mod actions;
mod create;
mod cursor;
mod planned;
mod view;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::command_context::{ConnectionArgs, run_command};
use actions::{Backfill, Edit, Pause, Skip, Trigger};
use create::Create;
use cursor::Cursor;
use planned::PlannedCommand;
use view::{History, List, Next};

pub(crate) use actions::Until;
pub(crate) use view::{indented, pause_summary, short_schedule};

/// Arguments of `punctual jobs`.
#[derive(Debug, Args)]
pub(crate) struct JobsArgs {
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(subcommand)]
    command: JobsCommand,
}

/// Commands about jobs.
#[derive(Debug, Subcommand)]
enum JobsCommand {
    /// List jobs with their state, next run and last run.
    List(List),
    /// Show a job.
    Show(JobName),
    /// List the next runs of a job.
    Next(Next),
    /// List the past runs of a job.
    History(History),
    /// Run a job now.
    Trigger(Trigger),
    /// Pause a job; running messages continue.
    Pause(Pause),
    /// Resume a paused job.
    Resume(JobName),
    /// Skip one occurrence: the next one, or that of --at.
    Skip(Skip),
    /// Move the cursor of a job: forward skips the occurrences in between, back schedules them again.
    Cursor(Cursor),
    /// Override the schedule, retries, timeout or misfire policy of a job; `reset` removes the override.
    Edit(Edit),
    /// Remove the overrides of `edit`.
    Reset(Reset),
    /// Run past occurrences.
    Backfill(Backfill),
    /// Create a job.
    Create(Box<Create>),
    /// Delete a job that was created by `create` or over HTTP, with its history, pending messages and dead letters.
    Delete(JobName),
    /// List, pause, resume, trigger or cancel the one-time jobs that an application planned.
    #[command(subcommand)]
    Planned(PlannedCommand),
}

/// Name of a job.
#[derive(Debug, Args)]
struct JobName {
    /// Name of the job.
    name: String,
}

/// Job, and the field to reset.
#[derive(Debug, Args)]
struct Reset {
    /// Name of the job.
    name: String,
    /// Only this field: schedule, zone, retry, timeout or misfire.
    #[arg(long)]
    field: Option<String>,
}

/// Runs the command.
pub(crate) fn run(arguments: &JobsArgs) -> ExitCode {
    run_command(&arguments.connection, async |context| match &arguments.command {
        JobsCommand::List(list) => view::list(context, list).await,
        JobsCommand::Show(job) => view::show(context, &job.name).await,
        JobsCommand::Next(next) => view::next(context, next).await,
        JobsCommand::History(history) => view::history(context, history).await,
        JobsCommand::Trigger(trigger) => actions::trigger(context, trigger).await,
        JobsCommand::Pause(pause) => actions::pause(context, pause).await,
        JobsCommand::Resume(job) => actions::resume(context, &job.name).await,
        JobsCommand::Skip(skip) => actions::skip(context, skip).await,
        JobsCommand::Cursor(args) => cursor::cursor(context, args).await,
        JobsCommand::Edit(edit) => actions::edit(context, edit).await,
        JobsCommand::Reset(reset) => {
            actions::reset(context, &reset.name, reset.field.as_deref()).await
        }
        JobsCommand::Backfill(backfill) => actions::backfill(context, backfill).await,
        JobsCommand::Create(create) => create::create(context, create).await,
        JobsCommand::Delete(job) => create::delete(context, &job.name).await,
        JobsCommand::Planned(planned) => planned::run(context, planned).await,
    })
}
