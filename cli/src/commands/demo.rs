//! `punctual demo`: a demonstration in the terminal. It runs a cron job, a delayed message, one that fails twice and
//! one that always fails, prints each event as it happens, and a summary at the end. The storage is a temporary file
//! by default.

mod screen;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use punctual::clock::{Clock, SystemClock, add, within};
use punctual::event::Event;
use punctual::inspect::{ExecutionFilter, PageRequest};
use punctual::model::HandlerOptions;
use punctual::{Context, Job, Occurrence, Punctual, Retry};
use punctual_backends::{Address, OpenedStorage, SqliteAddress, open_address};
use tokio::sync::broadcast::error::RecvError;

use screen::Screen;

use crate::terminal::print_error;

/// Duration and storage.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Seconds to run; Ctrl-C stops earlier.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Storage to use instead of a temporary file: `memory:`, `sqlite:path/to/file.db` or
    /// `postgres://user@host/database`.
    #[arg(long, value_name = "ADDRESS")]
    storage: Option<String>,
}

/// Runs the demonstration.
pub(crate) fn run(arguments: &DemoArgs) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let outcome =
        runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(demonstrate(arguments)));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_error(&error);
            ExitCode::FAILURE
        }
    }
}

async fn demonstrate(arguments: &DemoArgs) -> Result<()> {
    let seconds = arguments.seconds;
    let screen = Screen::new();
    let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
    let storage = match &arguments.storage {
        Some(address) => punctual_backends::open(address).await?,
        None => open_address(&temporary(folder.path())).await?,
    };
    let punctual = build(&storage)?;
    let mut events = punctual.events().listen();
    screen.opening(seconds)?;
    punctual.start().await?;
    send(&punctual).await?;

    let clock = SystemClock;
    let end = add(clock.now(), Duration::from_secs(seconds));
    let watch = async {
        loop {
            match events.recv().await {
                Ok(event) => screen.event(clock.now(), &event)?,
                Err(RecvError::Lagged(missed)) => screen.missed(missed)?,
                Err(RecvError::Closed) => return anyhow::Ok(()),
            }
        }
    };
    tokio::select! {
        result = within(&clock, end, watch) => result.unwrap_or(Ok(()))?,
        interrupt = tokio::signal::ctrl_c() => interrupt?,
    }
    let stopped = punctual.shutdown().await;
    while let Ok(event) = events.try_recv() {
        screen.event(clock.now(), &event)?;
    }
    summarize(&punctual, &screen, stopped.abandoned).await?;
    storage.close().await?;
    Ok(())
}

/// Returns the address of a file in a temporary folder.
fn temporary(folder: &Path) -> Address {
    let path = folder.join("demo.db");
    Address::Sqlite(SqliteAddress { path, normal: false, busy_timeout: None })
}

/// Builds an application with four handlers and a job.
fn build(storage: &OpenedStorage) -> punctual::Result<Punctual> {
    let retries = |delays: &[u64]| {
        let delays = delays.iter().map(|seconds| Duration::from_secs(*seconds));
        HandlerOptions::new().retry(Retry::intervals(delays))
    };
    Punctual::builder()
        .app("demo")
        .stores(storage.storage.clone(), storage.inspect.clone())
        .job(
            Job::cron("every-five-seconds", "*/5 * * * * *").description("a cron job with seconds"),
            |_: Occurrence, _: Context| async {},
        )
        .handler("welcome", |_: String, _: Context| async {})
        .handler("reminder", |_: String, _: Context| async {})
        .handler_with("flaky", retries(&[2, 3]), |_: String, context: Context| async move {
            if context.attempt() < 3 { Err("the mail server is busy") } else { Ok(()) }
        })
        .handler_with("hopeless", retries(&[1, 2]), |_: String, _: Context| async {
            Err::<(), _>("no such mailbox")
        })
        .build()
}

async fn send(punctual: &Punctual) -> punctual::Result<()> {
    let publisher = punctual.publisher();
    publisher.publish("welcome", "now").await?;
    publisher.publish("reminder", "later").after(Duration::from_secs(4)).await?;
    publisher.publish("flaky", "fails twice, then works").await?;
    publisher.publish("hopeless", "never works").await?;
    Ok(())
}

async fn summarize(punctual: &Punctual, screen: &Screen, abandoned: usize) -> Result<()> {
    let admin = punctual.admin();
    let history =
        admin.executions(ExecutionFilter::default(), PageRequest::first(1_000)).await?.rows;
    let dead = admin.dead_letters(PageRequest::first(100)).await?.rows;
    let events: Vec<(&'static str, u64)> =
        punctual.events().counts().filter(|(_, count)| *count > 0).collect();
    screen.summary(&history, &dead, &events, abandoned)
}

/// Returns whether an event is printed; the others are only counted.
fn is_printed(event: &Arc<Event>) -> bool {
    !matches!(**event, Event::AttemptStarted { .. } | Event::ProcessStarted { .. })
}
