//! `punctual jobs`: what runs on a schedule, how it is, and steering it.

mod acting;
mod cursor;
mod defining;
mod looking;
mod planned;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::desk::{Reach, at_desk};
use acting::{Backfill, Edit, Pause, Skip, Trigger};
use cursor::Cursor;
use defining::Create;
use looking::{History, List, Next};
use planned::Planned;

pub(crate) use acting::Until;
pub(crate) use looking::{gist, indented, paused};

/// Jobs: what runs on a schedule.
#[derive(Debug, Args)]
pub(crate) struct JobsArgs {
    #[command(flatten)]
    reach: Reach,
    #[command(subcommand)]
    command: JobsCommand,
}

/// What to do with jobs.
#[derive(Debug, Subcommand)]
enum JobsCommand {
    /// Every job: how it is, when it runs next, how it ran last.
    List(List),
    /// Everything about one job.
    Show(Named),
    /// When a job will run next.
    Next(Next),
    /// What a job has done.
    History(History),
    /// Run a job now.
    Trigger(Trigger),
    /// Stop a job from firing; what runs goes on.
    Pause(Pause),
    /// Let a paused job fire again.
    Resume(Named),
    /// Leave out one occurrence: the next, or a named one.
    Skip(Skip),
    /// Say up to when occurrences are decided about: forward leaves out what lies between, back decides
    /// about it again.
    Cursor(Cursor),
    /// Change the schedule, retries, time limit or misfire policy; `reset` takes it back.
    Edit(Edit),
    /// Take changes of `edit` back.
    Reset(Reset),
    /// Run occurrences of the past.
    Backfill(Backfill),
    /// Create a job.
    Create(Box<Create>),
    /// Delete a job that was created by `create` or over HTTP, with its history, its waiting messages and its
    /// dead letters.
    Delete(Named),
    /// One-time jobs that an application planned: list, pause, resume, trigger or cancel them.
    #[command(subcommand)]
    Planned(Planned),
}

/// A job.
#[derive(Debug, Args)]
struct Named {
    /// The job.
    name: String,
}

/// What to take back.
#[derive(Debug, Args)]
struct Reset {
    /// The job.
    name: String,
    /// Only this: schedule, zone, retry, timeout or misfire.
    #[arg(long)]
    field: Option<String>,
}

/// Runs one of them.
pub(crate) fn run(arguments: &JobsArgs) -> ExitCode {
    at_desk(&arguments.reach, async |desk| match &arguments.command {
        JobsCommand::List(list) => looking::list(desk, list).await,
        JobsCommand::Show(named) => looking::show(desk, &named.name).await,
        JobsCommand::Next(next) => looking::next(desk, next).await,
        JobsCommand::History(history) => looking::history(desk, history).await,
        JobsCommand::Trigger(trigger) => acting::trigger(desk, trigger).await,
        JobsCommand::Pause(pause) => acting::pause(desk, pause).await,
        JobsCommand::Resume(named) => acting::resume(desk, &named.name).await,
        JobsCommand::Skip(skip) => acting::skip(desk, skip).await,
        JobsCommand::Cursor(moved) => cursor::cursor(desk, moved).await,
        JobsCommand::Edit(edit) => acting::edit(desk, edit).await,
        JobsCommand::Reset(reset) => acting::reset(desk, &reset.name, reset.field.as_deref()).await,
        JobsCommand::Backfill(backfill) => acting::backfill(desk, backfill).await,
        JobsCommand::Create(create) => defining::create(desk, create).await,
        JobsCommand::Delete(named) => defining::delete(desk, &named.name).await,
        JobsCommand::Planned(planned) => planned::run(desk, planned).await,
    })
}
