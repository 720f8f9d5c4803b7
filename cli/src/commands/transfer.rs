//! `punctual export`, `import` and `move`: jobs and unfinished messages from one storage to another, through a file or
//! directly. A move also takes along what the server keeps beside them, such as users.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use punctual::clock::{Clock, SystemClock};
use punctual::jiff::Timestamp;
use punctual::model::MessageState;
use punctual::transfer::{
    ExportSummary, ImportSummary, Importer, copy_documents, copy_groups, export,
};
use punctual_connect::{Address, Opened};
use punctual_server::MOVED_KINDS;

use super::crontab::CrontabArgs;
use super::storage::{StorageArgs, existing, on_runtime, open};
use crate::terminal::tell;

/// A bucket that holds all executions: a hundred years.
const EVER: Duration = Duration::from_hours(24 * 365 * 100);

/// Where to write what is exported.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    storage: StorageArgs,
    /// The file to write; without one the lines go to standard output.
    file: Option<PathBuf>,
    /// Export although messages are running; they will be pending where they are imported, and may
    /// run twice.
    #[arg(long)]
    running: bool,
}

/// Where to read what is imported.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ImportArgs {
    #[command(subcommand)]
    other: Option<Other>,
    #[command(flatten)]
    storage: StorageArgs,
    /// The file to read; without one the lines come from standard input.
    file: Option<PathBuf>,
    /// Also take over jobs and messages that call URLs, run programs or publish; only for a file you trust.
    #[arg(long)]
    with_targets: bool,
}

/// What else can be taken over.
#[derive(Debug, Subcommand)]
enum Other {
    /// Make a configuration out of a crontab.
    Crontab(CrontabArgs),
}

/// From where to where.
#[derive(Debug, Args)]
pub(crate) struct MoveArgs {
    /// The storage to read, such as `sqlite:path/to/file.db`; it is left as it is.
    #[arg(long, value_name = "ADDRESS")]
    from: String,
    /// The storage to write, such as `postgres://user@host/database`.
    #[arg(long, value_name = "ADDRESS")]
    to: String,
    /// Move although messages are running; they will be pending in the target, and may run twice.
    #[arg(long)]
    running: bool,
}

pub(crate) fn run_export(arguments: &ExportArgs) -> ExitCode {
    on_runtime(async {
        let source = open(&existing(&arguments.storage.address)?).await?;
        let progress = begin(&source, arguments.running).await?;
        let exported = match &arguments.file {
            Some(path) => {
                let file = create_for_owner(path)
                    .with_context(|| format!("cannot create {}", path.display()))?;
                write_lines(&source, BufWriter::new(file), &progress).await?
            }
            None => write_lines(&source, io::stdout().lock(), &progress).await?,
        };
        progress.finish_and_clear();
        tell(&format!("Exported {}.", counted(exported.jobs, exported.messages)));
        tell(
            "An export has no users, tokens, webhooks, saved views, settings of queues, audit trail or groups of topics, which `punctual move` takes along, and no history.",
        );
        Ok(())
    })
}

pub(crate) fn run_import(arguments: &ImportArgs) -> ExitCode {
    if let Some(Other::Crontab(crontab)) = &arguments.other {
        return super::crontab::run(crontab);
    }
    on_runtime(async {
        let target = open(&Address::parse(&arguments.storage.address)?).await?;
        let lines: Box<dyn BufRead> = match &arguments.file {
            Some(path) => {
                let file =
                    File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
                Box::new(BufReader::new(file))
            }
            None => Box::new(io::stdin().lock()),
        };
        let progress = bar(None);
        let mut import = Importer::new(&*target.storage, SystemClock.now());
        if arguments.with_targets {
            import = import.with_system_topics();
        }
        for line in lines.lines() {
            import.line(&line.context("cannot read the export")?).await?;
            progress.inc(1);
        }
        let imported = import.finish().await?;
        progress.finish_and_clear();
        say(&imported);
        Ok(())
    })
}

pub(crate) fn run_move(arguments: &MoveArgs) -> ExitCode {
    on_runtime(async {
        let from = existing(&arguments.from)?;
        let to = Address::parse(&arguments.to)?;
        if from == to {
            bail!("source and target are the same storage; nothing to move");
        }
        if from == Address::Memory || to == Address::Memory {
            bail!("a storage in memory ends with this command; move between files and databases");
        }
        let source = open(&from).await?;
        let progress = begin(&source, arguments.running).await?;
        let target = open(&to).await?;
        let now = SystemClock.now();
        let mut import = Importer::new(&*target.storage, now).with_system_topics();
        export(&*source.inspect, now, async |line| {
            progress.inc(1);
            import.line(&line).await
        })
        .await?;
        let imported = import.finish().await?;
        progress.finish_and_clear();
        say(&imported);
        move_documents(&source, &target, now).await?;
        move_groups(&source, &target, now).await?;
        tell(&left_behind(&source, now).await?);
        tell("The source is as it was; do not start workers on it again.");
        Ok(())
    })
}

/// Copies what the server keeps beside jobs and messages, and says what that was.
async fn move_documents(source: &Opened, target: &Opened, now: Timestamp) -> Result<()> {
    let (mut copied, mut known) = (Vec::new(), Vec::new());
    for moved in MOVED_KINDS {
        let count = copy_documents(&*source.documents, &*target.documents, moved.kind, now).await?;
        let named = |count| format!("{count} {}", if count == 1 { moved.one } else { moved.many });
        copied.extend((count.copied > 0).then(|| named(count.copied)));
        known.extend((count.known > 0).then(|| named(count.known)));
    }
    if !copied.is_empty() {
        tell(&format!("Also moved: {}.", copied.join(", ")));
    }
    if !known.is_empty() {
        tell(&format!("Left alone, because they were there already: {}.", known.join(", ")));
    }
    Ok(())
}

/// Notes in the target which groups receive which topics.
async fn move_groups(source: &Opened, target: &Opened, now: Timestamp) -> Result<()> {
    let groups = copy_groups(&*source.storage, &*target.storage, now).await?;
    if groups > 0 {
        tell(&format!("Also noted: {groups} group{} of topics.", plural(groups)));
    }
    Ok(())
}

/// What a move does not take along.
async fn left_behind(source: &Opened, now: Timestamp) -> Result<String> {
    let buckets = source.inspect.throughput(Timestamp::UNIX_EPOCH, EVER).await?;
    let executions: u64 = buckets.iter().flat_map(|bucket| bucket.endings.values()).sum();
    let counts = source.inspect.counts(now).await?;
    let finished = counts.total(MessageState::Done) + counts.total(MessageState::Cancelled);
    Ok(format!(
        "Not moved: the history ({executions} execution{} and {finished} finished message{}), sign-ins, notes of inboxes, starts that rates count, and deduplication keys that finished messages still hold. People sign in again.",
        plural(executions),
        plural(finished)
    ))
}

/// Refuses while somebody works on the source, and starts the bar.
async fn begin(source: &Opened, running_too: bool) -> Result<ProgressBar> {
    let counts = source.inspect.counts(SystemClock.now()).await?;
    let running = counts.total(MessageState::Running);
    if running > 0 && !running_too {
        bail!(
            "{running} messages are running; stop the workers of this storage first, or add --running and accept that they may run twice"
        );
    }
    Ok(bar(Some(running + counts.total(MessageState::Pending) + counts.total(MessageState::Dead))))
}

/// Creates a file that only its owner may read: bodies may be secret.
fn create_for_owner(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

async fn write_lines(
    source: &Opened,
    mut to: impl Write,
    progress: &ProgressBar,
) -> Result<ExportSummary> {
    let exported = export(&*source.inspect, SystemClock.now(), async |line| {
        progress.inc(1);
        writeln!(to, "{line}").map_err(|error| {
            punctual::Error::unavailable(format!("cannot write the export: {error}"))
        })
    })
    .await?;
    to.flush().context("cannot write the export")?;
    Ok(exported)
}

/// A bar for people; nothing where nobody looks.
pub(super) fn bar(length: Option<u64>) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {per_sec} {eta}");
    match (length, style) {
        (Some(length), Ok(style)) => ProgressBar::new(length).with_style(style),
        _ => ProgressBar::new_spinner(),
    }
}

fn say(imported: &ImportSummary) {
    tell(&format!("Imported {}.", counted(imported.jobs, imported.messages)));
    if imported.jobs_known + imported.messages_known > 0 {
        let known = counted(imported.jobs_known, imported.messages_known);
        tell(&format!("Left alone, because they were there already: {known}."));
    }
}

fn counted(jobs: u64, messages: u64) -> String {
    format!("{jobs} job{} and {messages} message{}", plural(jobs), plural(messages))
}

fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}
