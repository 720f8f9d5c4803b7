//! `punctual import crontab`: converts a crontab into a configuration. Differences and lines that cannot be converted
//! are reported.

mod days;
mod line;
mod write;

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use punctual::jiff::tz::TimeZone;

use crate::error::{Code, CommandError, report};
use crate::render::counted;
use crate::terminal::notice;
use line::CrontabReader;

/// Largest size of a crontab that is read.
const BYTES_MAX: u64 = 1 << 20;

/// A crontab, and the file to write.
#[derive(Debug, Args)]
pub(crate) struct CrontabArgs {
    /// Crontab to read, or `-` for standard input, as in `crontab -l | punctual import crontab -`.
    file: PathBuf,
    /// Expect a user before each command; default for /etc/crontab and files in /etc/cron.d.
    #[arg(long)]
    system: bool,
    /// Time zone of the times; default: the zone of this machine. `CRON_TZ` overrides it.
    #[arg(long)]
    zone: Option<String>,
    /// Configuration file to create; default: standard output.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Converts the crontab. Exit code 1 when a line could not be converted.
pub(crate) fn run(arguments: &CrontabArgs) -> ExitCode {
    convert(arguments).map_or_else(|error| report(&error), |()| ExitCode::SUCCESS)
}

fn convert(arguments: &CrontabArgs) -> Result<()> {
    let (text, name) = read(&arguments.file)?;
    let system = arguments.system || is_system(&arguments.file);
    let zone =
        arguments.zone.clone().or_else(|| TimeZone::system().iana_name().map(ToOwned::to_owned));
    let mut reader = CrontabReader::new(system, zone.clone());
    for (index, line) in text.lines().enumerate() {
        reader.line(index + 1, line);
    }
    let crontab = reader.finish();
    if zone.is_none() {
        notice(
            "note: the time zone of this machine is unknown, so times are in UTC; use --zone to change that",
        );
    }
    for note in &crontab.notes {
        notice(&format!("note: {note}"));
    }
    for warning in &crontab.warnings {
        notice(&format!("warning: {warning}"));
    }
    let configuration = write::configuration(&crontab, &name);
    match &arguments.output {
        Some(path) => {
            let mut file = File::create_new(path)
                .with_context(|| format!("cannot create {}", path.display()))?;
            file.write_all(configuration.as_bytes())?;
        }
        None => io::stdout().write_all(configuration.as_bytes())?,
    }
    let lines = crontab.lines as u64;
    notice(&format!(
        "Converted {} of {}.",
        lines - crontab.rejected.len() as u64,
        counted(lines, "line")
    ));
    if crontab.rejected.is_empty() {
        return Ok(());
    }
    for rejected in &crontab.rejected {
        notice(&format!("not converted: {rejected}"));
    }
    let rejected = counted(crontab.rejected.len() as u64, "line");
    Err(CommandError::new(Code::Failed, format!("{rejected} could not be converted"))
        .hint("they are comments in the configuration; convert them by hand")
        .into())
}

/// Returns the text and the name of the crontab.
fn read(path: &Path) -> Result<(String, String)> {
    let mut text = String::new();
    if path == Path::new("-") {
        io::stdin()
            .lock()
            .take(BYTES_MAX)
            .read_to_string(&mut text)
            .context("cannot read the crontab from standard input")?;
        return Ok((text, "a crontab".to_owned()));
    }
    let missing = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => {
            CommandError::new(Code::NotFound, format!("there is no file {}", path.display())).into()
        }
        _ => anyhow::Error::from(error).context(format!("cannot read {}", path.display())),
    };
    File::open(path)
        .map_err(missing)?
        .take(BYTES_MAX)
        .read_to_string(&mut text)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let name =
        path.file_name().map_or("a crontab".into(), |name| name.to_string_lossy().into_owned());
    Ok((text, name))
}

fn is_system(path: &Path) -> bool {
    path == Path::new("/etc/crontab") || path.parent() == Some(Path::new("/etc/cron.d"))
}
