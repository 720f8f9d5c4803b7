//! Transfer commands `export`, `import` and `move`: copy jobs and unfinished messages between storages, through a file
//! or directly. A move also copies the documents of the server, such as users.

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
use punctual_backends::{Address, OpenedStorage};
use punctual_server::TRANSFER_KINDS;

use super::crontab::CrontabArgs;
use super::storage::{StorageArgs, existing, on_runtime, open};
use crate::terminal::notice;

/// Bucket size that covers all executions: a hundred years.
const WHOLE_HISTORY: Duration = Duration::from_hours(24 * 365 * 100);

/// Arguments of `punctual export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    storage: StorageArgs,
    /// File to create; default: standard output.
    file: Option<PathBuf>,
    /// Export even when messages are running; they are imported as pending and may run twice.
    #[arg(long)]
    running: bool,
}

/// Arguments of `punctual import`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ImportArgs {
    #[command(subcommand)]
    source: Option<ImportSource>,
    #[command(flatten)]
    storage: StorageArgs,
    /// File to read; default: standard input.
    file: Option<PathBuf>,
    /// Import jobs and messages that call URLs, run programs or publish; only for a trusted file.
    #[arg(long)]
    with_targets: bool,
}

/// Other formats that can be imported.
#[derive(Debug, Subcommand)]
enum ImportSource {
    /// Convert a crontab into a configuration.
    Crontab(CrontabArgs),
}

/// Arguments of `punctual move`.
#[derive(Debug, Args)]
pub(crate) struct MoveArgs {
    /// Source storage, such as `sqlite:path/to/file.db`; it is not changed.
    #[arg(long, value_name = "ADDRESS")]
    from: String,
    /// Target storage, such as `postgres://user@host/database`.
    #[arg(long, value_name = "ADDRESS")]
    to: String,
    /// Move even when messages are running; they are pending in the target and may run twice.
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
        notice(&format!("Exported {}.", counted(exported.jobs, exported.messages)));
        notice(
            "An export has no history, and no users, tokens, webhooks, saved views, queue settings, audit log or consumer groups, which `punctual move` copies.",
        );
        Ok(())
    })
}

pub(crate) fn run_import(arguments: &ImportArgs) -> ExitCode {
    if let Some(ImportSource::Crontab(crontab)) = &arguments.source {
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
        let progress = progress_bar(None);
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
        print_summary(&imported);
        Ok(())
    })
}

pub(crate) fn run_move(arguments: &MoveArgs) -> ExitCode {
    on_runtime(async {
        let from = existing(&arguments.from)?;
        let to = Address::parse(&arguments.to)?;
        if from == to {
            bail!("source and target are the same storage");
        }
        if from == Address::Memory || to == Address::Memory {
            bail!("a storage in memory ends with this process; move between files and databases");
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
        print_summary(&imported);
        move_documents(&source, &target, now).await?;
        move_groups(&source, &target, now).await?;
        notice(&not_moved(&source, now).await?);
        notice("The source is unchanged; do not start workers on it again.");
        Ok(())
    })
}

/// Copies the documents of the server and reports their numbers.
async fn move_documents(
    source: &OpenedStorage,
    target: &OpenedStorage,
    now: Timestamp,
) -> Result<()> {
    let (mut copied, mut existing) = (Vec::new(), Vec::new());
    for moved in TRANSFER_KINDS {
        let count = copy_documents(&*source.documents, &*target.documents, moved.kind, now).await?;
        let counted =
            |count| format!("{count} {}", if count == 1 { moved.one } else { moved.many });
        copied.extend((count.copied > 0).then(|| counted(count.copied)));
        existing.extend((count.known > 0).then(|| counted(count.known)));
    }
    if !copied.is_empty() {
        notice(&format!("Also moved: {}.", copied.join(", ")));
    }
    if !existing.is_empty() {
        notice(&format!("Skipped, because they exist already: {}.", existing.join(", ")));
    }
    Ok(())
}

/// Copies the consumer groups of topics and reports their number.
async fn move_groups(source: &OpenedStorage, target: &OpenedStorage, now: Timestamp) -> Result<()> {
    let groups = copy_groups(&*source.storage, &*target.storage, now).await?;
    if groups > 0 {
        notice(&format!("Also moved: {groups} consumer group{}.", plural(groups)));
    }
    Ok(())
}

/// Returns a text about what a move does not copy.
async fn not_moved(source: &OpenedStorage, now: Timestamp) -> Result<String> {
    let buckets = source.inspect.throughput(Timestamp::UNIX_EPOCH, WHOLE_HISTORY).await?;
    let executions: u64 = buckets.iter().flat_map(|bucket| bucket.endings.values()).sum();
    let counts = source.inspect.counts(now).await?;
    let finished = counts.total(MessageState::Done) + counts.total(MessageState::Cancelled);
    Ok(format!(
        "Not moved: the history ({executions} execution{} and {finished} finished message{}), sessions, inbox records, rate-limit counters, and deduplication keys of finished messages. Users must sign in again.",
        plural(executions),
        plural(finished)
    ))
}

/// Fails while messages run on the source, unless `allow_running`; else returns the progress bar.
async fn begin(source: &OpenedStorage, allow_running: bool) -> Result<ProgressBar> {
    let counts = source.inspect.counts(SystemClock.now()).await?;
    let running = counts.total(MessageState::Running);
    if running > 0 && !allow_running {
        bail!(
            "{running} messages are running; stop the workers of this storage first, or add --running, with which they may run twice"
        );
    }
    Ok(progress_bar(Some(
        running + counts.total(MessageState::Pending) + counts.total(MessageState::Dead),
    )))
}

/// Creates a file that only its owner can read, because bodies may be secret.
fn create_for_owner(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

async fn write_lines(
    source: &OpenedStorage,
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

/// Returns a progress bar, hidden without a terminal.
pub(super) fn progress_bar(total: Option<u64>) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {per_sec} {eta}");
    match (total, style) {
        (Some(total), Ok(style)) => ProgressBar::new(total).with_style(style),
        _ => ProgressBar::new_spinner(),
    }
}

fn print_summary(imported: &ImportSummary) {
    notice(&format!("Imported {}.", counted(imported.jobs, imported.messages)));
    if imported.jobs_known + imported.messages_known > 0 {
        let existing = counted(imported.jobs_known, imported.messages_known);
        notice(&format!("Skipped, because they exist already: {existing}."));
    }
}

fn counted(jobs: u64, messages: u64) -> String {
    format!("{jobs} job{} and {messages} message{}", plural(jobs), plural(messages))
}

fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}
